#include "bertie/text_model.h"

#include <gtest/gtest.h>

#include "bertie/error.h"
#include "model/access.h"
#include "support/expect_error.h"
#include "support/sentences.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

using test::expect_error;
using test::MadeUpModel;

std::vector<std::string> many_texts(size_t count) {
  Random random(5);
  std::vector<std::string> texts(count);
  for (auto& text : texts)
    for (uint32_t words = random.below(12); words > 0; --words) {
      text += char('a' + random.below(26));
      if (random.below(2)) text += ' ';
    }
  texts.push_back("");
  return texts;
}

TEST(TextModel, EmbedsManyTextsBitwiseAsOneByOne) {
  const MadeUpModel model;
  const TextModel encoder = model.load(2);
  const auto texts = many_texts(700);  // more than one batch
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> all(texts.size() * encoder.dimension());
  const auto rows = encoder.embed(views, {all.data(), texts.size(), encoder.dimension()});
  const auto vectors = encoder.embed(texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Embedding alone = encoder.embed(texts[i]);
    ASSERT_TRUE(test::same_bits(alone.values, std::span(all).subspan(i * 64, 64))) << texts[i];
    ASSERT_TRUE(test::same_bits(alone.values, vectors[i].values)) << texts[i];
    for (const auto& [tokens, truncated] :
         {std::pair(rows[i].tokens, rows[i].truncated), {vectors[i].tokens, vectors[i].truncated}}) {
      EXPECT_EQ(tokens, alone.tokens);
      EXPECT_FALSE(truncated);
    }
  }
}

TEST(TextModel, TwoTextsInBracesAreTwoTexts) {
  const TextModel encoder = MadeUpModel().load();
  const std::vector<Embedding> two = encoder.embed({"a", "b c"});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(test::same_bits(two[1].values, encoder.embed("b c").values));
  expect_error("cannot", [&] { encoder.classify({"a", "b"}); });
  expect_error("cannot", [&] { encoder.tag({"a", "b"}); });
  expect_error("cannot", [&] { encoder.fill_mask({"a", "b"}); });
  expect_error("cannot", [&] { encoder.generate({"a", "b"}); });
}

TEST(TextModel, EmbedsNothingIntoNothing) {
  const TextModel encoder = MadeUpModel().load();
  EXPECT_TRUE(encoder.embed({}, {nullptr, 0, 64}).empty());
}

TEST(TextModel, CutsLongTextsAndSaysSo) {
  MadeUpModel model;
  model.write("sentence_bert_config.json", R"({"max_seq_length": 6})");
  model.modules({{"Pooling", "1_Pooling"}});
  model.pooling(R"("pooling_mode_mean_tokens":true)");
  const TextModel encoder = model.load();
  EXPECT_EQ(encoder.max_length(), 6u);
  const Embedding whole = encoder.embed("a b c d"), shortened = encoder.embed("a b c d e f");
  EXPECT_FALSE(whole.truncated);
  EXPECT_TRUE(shortened.truncated);
  EXPECT_EQ(shortened.tokens, 6u);
  EXPECT_TRUE(test::same_bits(shortened.values, whole.values)) << "what is cut away still counts";
  const std::string_view texts[] = {"a", "a b c d e", "a b c d", "f e d c b a"};
  std::vector<float> out(4 * 64);
  const auto rows = encoder.embed(texts, {out.data(), 4, 64});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rows[i].truncated, i % 2 == 1);
  const Embedding longer = encoder.with_max_length(10).embed("a b c d e f");
  EXPECT_FALSE(test::same_bits(longer.values, whole.values));
  EXPECT_FALSE(longer.truncated);
}

TEST(TextModel, TakesTheTokenizersLimitWhereNoOtherIsGiven) {
  MadeUpModel model;
  EXPECT_EQ(model.load().max_length(), MadeUpModel::kPositions);
  model.write("tokenizer_config.json", R"({"model_max_length": 20})");
  EXPECT_EQ(model.load().max_length(), 20u);
  model.modules({{"Pooling", "1_Pooling"}});
  model.pooling(R"("pooling_mode_mean_tokens":true)");
  model.write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(model.load().max_length(), 20u);
  model.write("sentence_bert_config.json", R"({"max_seq_length": "long"})");
  expect_error("max_seq_length", [&] { model.load(); });
}

TEST(TextModel, RefusesLengthsTheModelCannotTake) {
  const TextModel encoder = MadeUpModel().load();
  for (size_t wrong : {1, 2, 34})
    expect_error(
        "`max_length` " + std::to_string(wrong) + " is out of range: this model takes 3 to 33 tokens",
        [&] { encoder.with_max_length(wrong); });
  for (size_t right : {3, 33}) EXPECT_EQ(encoder.with_max_length(right).max_length(), right);
  EXPECT_EQ(encoder.with_max_length(9).with_max_length(0).max_length(), 33u) << "0 is what the files say";
}

TEST(TextModel, RefusesAnOutputOfTheWrongShape) {
  const TextModel encoder = MadeUpModel().load();
  std::vector<float> out(200);
  const std::string_view texts[] = {"a", "b"};
  expect_error("out must be 2 × 64, not 1 × 64", [&] { encoder.embed(texts, {out.data(), 1, 64}); });
  expect_error("out must be 2 × 64, not 2 × 63", [&] { encoder.embed(texts, {out.data(), 2, 63}); });
}

TEST(TextModel, AttendsWithTheModelsOwnWeights) {
  const MadeUpModel model;
  const TextModel encoder = model.load();
  const Attention a = encoder.attend("ab c");
  EXPECT_EQ(a.tokens, (std::vector<std::string>{"[CLS]", "a", "##b", "c", "[SEP]"}));
  EXPECT_EQ(a.layers, 2u);
  EXPECT_EQ(a.heads, 2u);
  ASSERT_EQ(a.weights.size(), 2u * 2 * 5 * 5);
  bertie::Run run(encoder.model(), 1);
  const std::vector<int32_t> offsets{0, 5};
  const Output& out = run.forward({.ids = a.encoding.ids, .offsets = offsets}, {.all_attention = true});
  for (size_t l = 0; l < 2; ++l)
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_TRUE(test::same_bits(test::copy_of(a.at(l, h)), test::copy_of(out.attention(l, 0, h))));
      for (size_t i = 0; i < 5; ++i) {
        double sum = 0;
        for (float w : a.at(l, h)[i]) sum += w;
        EXPECT_NEAR(sum, 1, 1e-6);
      }
    }
  expect_error("no layer 2, head 0", [&] { a.at(2, 0); });
  expect_error("no layer 0, head 2", [&] { a.at(0, 2); });
}

TEST(TextModel, AttendsAcrossAPairWithItsTypes) {
  const TextModel encoder = MadeUpModel().load();
  const Attention a = encoder.attend("a b", "c");
  EXPECT_EQ(a.tokens, (std::vector<std::string>{"[CLS]", "a", "b", "[SEP]", "c", "[SEP]"}));
  EXPECT_EQ(a.encoding.types, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  bertie::Run run(encoder.model(), 1);
  const std::vector<int32_t> offsets{0, 6};
  const Output& with = run.forward({.ids = a.encoding.ids, .types = a.encoding.types, .offsets = offsets},
                                   {.all_attention = true});
  EXPECT_TRUE(test::same_bits(test::copy_of(a.at(1, 1)), test::copy_of(with.attention(1, 0, 1))));
  const Output& without = run.forward({.ids = a.encoding.ids, .offsets = offsets}, {.all_attention = true});
  EXPECT_FALSE(test::same_bits(test::copy_of(a.at(1, 1)), test::copy_of(without.attention(1, 0, 1))));
}

TEST(TextModel, AttendRefusesATextLongerThanTheModel) {
  const TextModel encoder = MadeUpModel().load();
  std::string text;
  for (int i = 0; i < 31; ++i) text += "a ";
  EXPECT_EQ(encoder.attend(text).n(), 33u);
  expect_error("the text has 34 tokens, but the model has positions for 33",
               [&] { encoder.attend(text + "b"); });
}

TEST(TextModel, AttendsWithAModelOfOneTokenType) {
  const TextModel encoder = MadeUpModel("gelu_pytorch_tanh").load();
  EXPECT_EQ(encoder.attend("a", "b").n(), 5u);
}

TEST(TextModel, RefusesAVocabularyThatIsTooLargeForTheModel) {
  MadeUpModel model;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < 76; ++i) vocabulary += fmt::format("w{}\n", i);
  model.write("vocab.txt", vocabulary);
  expect_error("the vocabulary has 81 tokens but the model has embeddings for 80", [&] { model.load(); });
}

TEST(TextModel, NamesWhatIsMissing) {
  MadeUpModel model;
  std::filesystem::remove(model.path() / "vocab.txt");
  expect_error("vocab.txt", [&] { model.load(); });
  expect_error("/no/such/model", [] { load("/no/such/model"); });
  expect_error("/no/such/model", [] { load(std::filesystem::path("/no/such/model")); });
}

TEST(TextModel, HandlesShareTheWeightsAndKeepTheirSettingsApart) {
  const TextModel a = MadeUpModel().load().with_max_length(9);
  const TextModel b = a.with_max_length(12), c = a.with_threads(3);
  EXPECT_EQ(a.max_length(), 9u);
  EXPECT_EQ(b.max_length(), 12u);
  EXPECT_EQ(c.max_length(), 9u);
  EXPECT_EQ(a.threads(), 1);
  EXPECT_EQ(c.threads(), 3);
  EXPECT_EQ(&weights_of(a.model()), &weights_of(b.model()));
  EXPECT_EQ(&weights_of(a.model()), &weights_of(c.model()));
  EXPECT_TRUE(test::same_bits(a.embed("abc").values, c.embed("abc").values));
}

TEST(TextModel, KeepsOnlyTheLayersThatAreAskedFor) {
  const TextModel model = MadeUpModel().load();
  const Attention all = model.attend("ab c"), last = model.attend("ab c", {.layers = {1}});
  EXPECT_EQ(all.kept, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(last.kept, (std::vector<size_t>{1}));
  EXPECT_EQ(last.layers, 2u);
  EXPECT_EQ(last.weights.size(), all.weights.size() / 2);
  for (size_t h = 0; h < 2; ++h)
    EXPECT_TRUE(test::same_bits(test::copy_of(last.at(1, h)), test::copy_of(all.at(1, h))));
  expect_error("layer 0 was not kept", [&] { last.at(0, 0); });
  expect_error("no layer 2: the model has layers 0 to 1", [&] { model.attend("ab", {.layers = {2}}); });
}

TEST(TextModel, APrefixGoesBeforeEachText) {
  const TextModel encoder = MadeUpModel().load();
  const auto with = encoder.embed({"a b", ""}, {.prefix = "q x "});
  EXPECT_EQ(with[0].values, encoder.embed("q x a b").values);
  EXPECT_EQ(with[1].values, encoder.embed("q x ").values);
}

TEST(TextModel, PoolsAsItIsTold) {
  const TextModel encoder = MadeUpModel().load();
  const size_t hidden = encoder.dimension();
  const std::vector<std::string> texts{"a b c d"};
  const TokenVectors tokens = encoder.token_vectors(texts)[0];
  const TextModel cls = encoder.with_pooling({.cls = true, .mean = false});
  EXPECT_EQ(cls.embed("a b c d").values,
            std::vector<float>(tokens.values.begin(), tokens.values.begin() + ptrdiff_t(hidden)));
  EXPECT_EQ(encoder.embed("a b c d").values, encoder.with_pooling(encoder.pooling()).embed("a b c d").values);
  const TextModel both = encoder.with_pooling({.cls = true, .mean = false, .max = true, .normalize = true});
  EXPECT_EQ(both.dimension(), 2 * hidden);
  const std::vector<float> v = both.embed("a b c d").values;
  double squares = 0;
  for (float x : v) squares += double(x) * double(x);
  EXPECT_NEAR(squares, 1, 1e-6);
  float most = tokens.values[0];
  for (size_t t = 1; t < tokens.tokens; ++t) most = std::max(most, tokens.values[t * hidden]);
  EXPECT_NEAR(v[hidden] / v[0], most / tokens.values[0], 1e-4);
  expect_error("one kind of pooling", [&] { encoder.with_pooling({.mean = false}); });
}

TEST(TextModel, LongTextsGoInWindowsWhereThatIsAskedFor) {
  const TextModel encoder = MadeUpModel().load().with_max_length(6);
  const std::string text = "a b c d e f g h i j";  // [CLS] and [SEP] leave four in a window: a-d, e-h, i-j
  const auto mixed = encoder.embed({"a b", text, "c"}, {.windows = true});
  EXPECT_EQ(mixed[0].values, encoder.embed("a b").values);
  EXPECT_EQ(mixed[0].windows, 1u);
  EXPECT_EQ(mixed[1].windows, 3u);
  EXPECT_EQ(mixed[1].tokens, 16u);
  EXPECT_FALSE(mixed[1].truncated);
  const auto parts = encoder.embed({"a b c d", "e f g h", "i j"});
  for (size_t c = 0; c < encoder.dimension(); ++c)
    EXPECT_NEAR(mixed[1].values[c],
                (6 * parts[0].values[c] + 6 * parts[1].values[c] + 4 * parts[2].values[c]) / 16, 1e-6);
  EXPECT_EQ(encoder.embed({text}, {.windows = true})[0].values, mixed[1].values) << "whoever is beside it";
  EXPECT_TRUE(encoder.embed(text).truncated) << "without windows it is cut";
}

}  // namespace
}  // namespace bertie
