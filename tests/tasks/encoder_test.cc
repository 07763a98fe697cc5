#include "bertie/encoder.h"

#include <gtest/gtest.h>

#include <thread>

#include "bertie/error.h"
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

TEST(Encoder, EmbedsManyTextsBitwiseAsOneByOne) {
  const MadeUpModel model;
  Encoder encoder = model.load(2);
  const auto texts = many_texts(700);  // more than one batch
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> all(texts.size() * encoder.dimension());
  EXPECT_EQ(encoder.embed(views, {all.data(), texts.size(), encoder.dimension()}), 0u);
  for (size_t i = 0; i < texts.size(); ++i)
    ASSERT_TRUE(test::same_bits(encoder.embed(texts[i]), std::span(all).subspan(i * 64, 64))) << texts[i];
}

TEST(Encoder, EmbedsNothingIntoNothing) {
  Encoder encoder = MadeUpModel().load();
  EXPECT_EQ(encoder.embed({}, {nullptr, 0, 64}), 0u);
}

TEST(Encoder, CutsLongTextsAndSaysSo) {
  MadeUpModel model;
  model.write("sentence_bert_config.json", R"({"max_seq_length": 6})");
  model.modules({{"Pooling", "1_Pooling"}});
  model.pooling(R"("pooling_mode_mean_tokens":true)");
  Encoder encoder = model.load();
  EXPECT_EQ(encoder.max_length(), 6u);
  bool cut = true;
  const auto whole = encoder.embed("a b c d", &cut);
  EXPECT_FALSE(cut);
  const auto shortened = encoder.embed("a b c d e f", &cut);
  EXPECT_TRUE(cut);
  EXPECT_TRUE(test::same_bits(shortened, whole)) << "what is cut away still counts";
  const std::string_view texts[] = {"a", "a b c d e", "a b c d", "f e d c b a"};
  std::vector<float> out(4 * 64);
  EXPECT_EQ(encoder.embed(texts, {out.data(), 4, 64}), 2u);
  encoder.set_max_length(10);
  EXPECT_FALSE(test::same_bits(encoder.embed("a b c d e f", &cut), whole));
  EXPECT_FALSE(cut);
}

TEST(Encoder, TakesTheTokenizersLimitWhereNoOtherIsGiven) {
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

TEST(Encoder, RefusesLengthsTheModelCannotTake) {
  Encoder encoder = MadeUpModel().load();
  for (size_t wrong : {0, 2, 34}) expect_error("max_length", [&] { encoder.set_max_length(wrong); });
  for (size_t right : {3, 33}) EXPECT_NO_THROW(encoder.set_max_length(right));
}

TEST(Encoder, RefusesAnOutputOfTheWrongShape) {
  Encoder encoder = MadeUpModel().load();
  std::vector<float> out(200);
  const std::string_view texts[] = {"a", "b"};
  expect_error("out must be 2 × 64, not 1 × 64", [&] { encoder.embed(texts, {out.data(), 1, 64}); });
  expect_error("out must be 2 × 64, not 2 × 63", [&] { encoder.embed(texts, {out.data(), 2, 63}); });
}

TEST(Encoder, AttendsWithTheModelsOwnWeights) {
  const MadeUpModel model;
  Encoder encoder = model.load();
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

TEST(Encoder, AttendsAcrossAPairWithItsTypes) {
  Encoder encoder = MadeUpModel().load();
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

TEST(Encoder, AttendRefusesATextLongerThanTheModel) {
  Encoder encoder = MadeUpModel().load();
  std::string text;
  for (int i = 0; i < 31; ++i) text += "a ";
  EXPECT_EQ(encoder.attend(text).n(), 33u);
  expect_error("the text has 34 tokens, but the model has positions for 33",
               [&] { encoder.attend(text + "b"); });
}

TEST(Encoder, AttendsWithAModelOfOneTokenType) {
  Encoder encoder = MadeUpModel("gelu_pytorch_tanh").load();
  EXPECT_EQ(encoder.attend("a", "b").n(), 5u);
}

TEST(Encoder, RefusesAVocabularyThatIsTooLargeForTheModel) {
  MadeUpModel model;
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < 76; ++i) vocabulary += fmt::format("w{}\n", i);
  model.write("vocab.txt", vocabulary);
  expect_error("the vocabulary has 81 tokens but the model has embeddings for 80", [&] { model.load(); });
}

TEST(Encoder, NamesWhatIsMissing) {
  MadeUpModel model;
  std::filesystem::remove(model.path() / "vocab.txt");
  expect_error("vocab.txt", [&] { model.load(); });
  expect_error("/no/such/model", [] { Encoder::load("/no/such/model"); });
}

TEST(Encoder, CopiesWorkInThreadsOfTheirOwn) {
  const MadeUpModel model;
  Encoder first = model.load();
  const auto texts = many_texts(40);
  std::vector<std::vector<float>> expected;
  for (const auto& text : texts) expected.push_back(first.embed(text));
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, copy = Encoder(first)]() mutable {
      for (size_t i = 0; i < texts.size(); ++i)
        if (!test::same_bits(copy.embed(texts[i]), expected[i])) ++different;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST(Encoder, CopiesKeepTheirSettingsApart) {
  Encoder a = MadeUpModel().load();
  a.set_max_length(9);
  Encoder b(a);
  EXPECT_EQ(b.max_length(), 9u);
  b.set_max_length(12);
  EXPECT_EQ(a.max_length(), 9u);
  EXPECT_EQ(&a.model().weights(), &b.model().weights()) << "weights are shared";
}

}  // namespace
}  // namespace bertie
