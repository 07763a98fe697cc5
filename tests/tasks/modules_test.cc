// modules.json: what happens between token vectors and a sentence's vector.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

using test::expect_error;
using test::MadeUpModel;
using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

const std::string kText = "abc de f";

Vector cls(const Rows& rows) { return rows.front(); }
Vector largest(const Rows& rows) {
  Vector v = rows.front();
  for (const Vector& row : rows)
    for (size_t c = 0; c < v.size(); ++c) v[c] = std::max(v[c], row[c]);
  return v;
}
Vector sum_over(const Rows& rows, double divisor) {
  Vector v(rows.front().size());
  for (const Vector& row : rows)
    for (size_t c = 0; c < v.size(); ++c) v[c] += row[c] / divisor;
  return v;
}
Vector mean(const Rows& rows) { return sum_over(rows, double(rows.size())); }
Vector mean_sqrt(const Rows& rows) { return sum_over(rows, std::sqrt(double(rows.size()))); }
Vector normalized(Vector v) {
  double squares = 0;
  for (double x : v) squares += x * x;
  for (double& x : v) x /= std::sqrt(squares);
  return v;
}
Vector operator+(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect_embedding(const MadeUpModel& model, const Vector& expected) {
  const TextModel encoder = model.load();
  ASSERT_EQ(encoder.dimension(), expected.size());
  const std::vector<float> v = encoder.embed(kText).values;
  ASSERT_EQ(v.size(), expected.size());
  for (size_t i = 0; i < v.size(); ++i) ASSERT_NEAR(v[i], expected[i], 2e-6) << i;
}

TEST(Modules, WithoutAFileMeanTheMeanOfAllTokensUnnormalized) {
  const MadeUpModel model;
  expect_embedding(model, mean(model.hidden(kText)));
}

std::string flags(bool c, bool mean_on, bool max_on, bool root) {
  return fmt::format(R"("pooling_mode_cls_token":{},"pooling_mode_mean_tokens":{},)"
                     R"("pooling_mode_max_tokens":{},"pooling_mode_mean_sqrt_len_tokens":{})",
                     c, mean_on, max_on, root);
}

TEST(Modules, PoolAsTheFlagsSayAndConcatenateSeveral) {
  MadeUpModel model;
  model.modules({{"Pooling", "1_Pooling"}});
  const Rows rows = model.hidden(kText);
  for (int bits = 1; bits < 16; ++bits) {
    const bool c = bits & 1, m = bits & 2, x = bits & 4, r = bits & 8;
    SCOPED_TRACE(flags(c, m, x, r));
    model.pooling(flags(c, m, x, r));
    Vector expected;  // in sentence-transformers' order
    if (c) expected = expected + cls(rows);
    if (x) expected = expected + largest(rows);
    if (m) expected = expected + mean(rows);
    if (r) expected = expected + mean_sqrt(rows);
    expect_embedding(model, expected);
  }
}

TEST(Modules, PoolAsTheNewerOneNameSays) {
  MadeUpModel model;
  model.modules({{"Pooling", "1_Pooling"}});
  const Rows rows = model.hidden(kText);
  const std::pair<const char*, Vector> modes[] = {{"cls", cls(rows)},
                                                  {"mean", mean(rows)},
                                                  {"max", largest(rows)},
                                                  {"mean_sqrt_len_tokens", mean_sqrt(rows)}};
  for (const auto& [mode, expected] : modes) {
    SCOPED_TRACE(mode);
    model.pooling(fmt::format(R"("pooling_mode":"{}")", mode));
    expect_embedding(model, expected);
  }
  model.pooling(R"("pooling_mode":"lasttoken")");
  expect_error("1_Pooling/config.json", [&] { model.load(); });
}

TEST(Modules, NormalizeWhereTheyAskForIt) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  model.modules({{"Pooling", "1_Pooling"}, {"Normalize", "2_Normalize"}});
  expect_embedding(model, normalized(mean(model.hidden(kText))));
}

TEST(Modules, ApplyDenseLayersBetweenPoolingAndNormalize) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  const std::pair<const char*, double (*)(double)> activations[] = {
      {"torch.nn.modules.activation.Tanh", [](double x) { return std::tanh(x); }},
      {"torch.nn.modules.linear.Identity", [](double x) { return x; }},
      {"torch.nn.modules.activation.ReLU", [](double x) { return std::max(0.0, x); }},
      {"torch.nn.modules.activation.GELU",
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"torch.nn.modules.activation.SiLU", [](double x) { return x / (1 + std::exp(-x)); }},
  };
  const size_t outputs = 37;
  const auto weight = test::random_floats(outputs * 64, 1, -0.2f, 0.2f),
             bias = test::random_floats(outputs, 2);
  const Vector pooled = mean(model.hidden(kText));
  for (const auto& [name, f] : activations) {
    SCOPED_TRACE(name);
    model.dense("2_Dense", 64, weight, bias, name);
    Vector expected(outputs);
    for (size_t o = 0; o < outputs; ++o) {
      double sum = bias[o];
      for (size_t i = 0; i < 64; ++i) sum += weight[o * 64 + i] * pooled[i];
      expected[o] = f(sum);
    }
    model.modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
    expect_embedding(model, expected);
    model.modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}, {"Normalize", "3_Normalize"}});
    expect_embedding(model, normalized(expected));
  }
}

TEST(Modules, StackDenseLayers) {
  MadeUpModel model;
  model.pooling(flags(true, false, false, false));
  model.dense("2_Dense", 64, test::random_floats(3 * 64, 1), {0, 0, 0}, "torch.nn.modules.linear.Identity");
  model.dense("3_Dense", 3, {1, 1, 1}, {0.5f}, "torch.nn.modules.linear.Identity");
  model.modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}, {"Dense", "3_Dense"}});
  const auto weight = test::random_floats(3 * 64, 1);
  const Vector first = cls(model.hidden(kText));
  double sum = 0.5;
  for (size_t i = 0; i < 3 * 64; ++i) sum += weight[i] * first[i % 64];
  const TextModel encoder = model.load();
  ASSERT_EQ(encoder.dimension(), 1u);
  EXPECT_NEAR(encoder.embed(kText).values[0], sum, 1e-5);
}

TEST(Modules, ThatAreUnknownOrOutOfOrderAreErrors) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  model.modules({{"Pooling", "1_Pooling"}, {"LSTM", "2_LSTM"}});
  expect_error("LSTM", [&] { model.load(); });
  model.modules({{"Normalize", "1_Normalize"}});
  expect_error("Normalize", [&] { model.load(); });
  model.modules({{"Pooling", "1_Pooling"}, {"Pooling", "1_Pooling"}});
  expect_error("Pooling", [&] { model.load(); });
  model.modules({{"Pooling", "1_Pooling"}, {"Normalize", ""}, {"Dense", "2_Dense"}});
  expect_error("after Normalize", [&] { model.load(); });
  model.modules({});
  expect_error("no Pooling", [&] { model.load(); });
  model.write("modules.json", R"([{"type":"sentence_transformers.models.Pooling","path":"1_Pooling"}])");
  expect_error("not a Transformer", [&] { model.load(); });
  for (const char* broken : {"[]", "{}", "[1]", "[", R"([{"path":""}])", R"([{"type":3}])"}) {
    model.write("modules.json", broken);
    SCOPED_TRACE(broken);
    expect_error("modules.json", [&] { model.load(); });
  }
}

TEST(Modules, MayNotLeadOutOfTheModelsFolder) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  for (const char* path : {"../x", "1_Pooling/../../x", "/etc", "..", "a/.."}) {
    model.modules({{"Pooling", path}});
    expect_error("leaves the model's folder", [&] { model.load(); });
  }
}

TEST(Modules, MayKeepTheTransformerInAFolderOfItsOwn) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  const Vector expected = mean(model.hidden(kText));
  std::filesystem::create_directories(model.path() / "0_Transformer");
  for (const char* file : {"config.json", "model.safetensors", "vocab.txt"})
    std::filesystem::rename(model.path() / file, model.path() / "0_Transformer" / file);
  model.write("modules.json",
              R"([{"type":"sentence_transformers.models.Transformer","path":"0_Transformer"},)"
              R"({"type":"sentence_transformers.models.Pooling","path":"1_Pooling"}])");
  expect_embedding(model, expected);
}

TEST(Modules, DecideTheLengthBeforeTheTokenizerDoes) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  model.modules({{"Pooling", "1_Pooling"}});
  model.write("tokenizer_config.json", R"({"model_max_length":10})");
  EXPECT_EQ(model.load().max_length(), 10u);
  model.write("sentence_bert_config.json", R"({"max_seq_length":20})");
  EXPECT_EQ(model.load().max_length(), 20u);
  model.write("sentence_bert_config.json", R"({"max_seq_length":4000})");
  EXPECT_EQ(model.load().max_length(), MadeUpModel::kPositions);
}

TEST(Modules, ThatWantLowerCaseForACasedTokenizerAreAnError) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  model.modules({{"Pooling", "1_Pooling"}});
  model.write("sentence_bert_config.json", R"({"do_lower_case":true})");
  EXPECT_NO_THROW(model.load());
  model.write("tokenizer_config.json", R"({"do_lower_case":false})");
  expect_error("lowercase", [&] { model.load(); });
}

TEST(Modules, GiveZerosForATextWithoutTokens) {
  MadeUpModel model;
  model.modules({{"Pooling", "1_Pooling"}});
  std::string vocab;
  for (int i = 0; const char* token : {"[UNK]", "[CLS]", "[SEP]", "a"})
    vocab += fmt::format("{}\"{}\":{}", i ? "," : "", token, i), ++i;
  model.write(
      "tokenizer.json",
      R"({"normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      R"("post_processor":null,"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{)" +
          vocab + "}}}");
  for (const std::string& pooling : {flags(true, false, false, false), flags(false, true, true, true)}) {
    model.pooling(pooling);
    for (float x : model.load().embed("").values) EXPECT_EQ(x, 0.0f);
  }
}

TEST(Modules, TooManyAreAnError) {
  MadeUpModel model;
  model.pooling(flags(false, true, false, false));
  model.modules(std::vector<std::pair<std::string, std::string>>(17, {"Pooling", "1_Pooling"}));
  expect_error("1 to 16 modules", [&] { model.load(); });
}

TEST(Modules, WithSettingsThatDoNotFitAreErrorsThatNameTheFile) {
  MadeUpModel model;
  model.modules({{"Pooling", "1_Pooling"}});
  expect_error("1_Pooling", [&] { model.load(); });  // there is none yet
  model.write("1_Pooling/config.json", R"({"word_embedding_dimension":65})");
  expect_error("word_embedding_dimension is 65", [&] { model.load(); });
  model.pooling(flags(false, false, false, false));
  expect_error("no pooling mode", [&] { model.load(); });
  model.pooling(R"("pooling_mode_lasttoken":true)");
  expect_error("pooling_mode_lasttoken", [&] { model.load(); });
  model.pooling(R"("pooling_mode":["cls","max"])");
  expect_error("pooling_mode", [&] { model.load(); });
  model.pooling(R"("pooling_mode_cls_token":"yes")");
  expect_error("pooling_mode_cls_token", [&] { model.load(); });

  model.pooling(flags(false, true, false, false));
  model.modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
  expect_error("2_Dense", [&] { model.load(); });
  model.dense("2_Dense", 32, std::vector<float>(32), {0}, "torch.nn.modules.linear.Identity");
  expect_error("in_features is 32", [&] { model.load(); });
  model.dense("2_Dense", 64, std::vector<float>(64), {0}, "torch.nn.Softplus");
  expect_error("Softplus", [&] { model.load(); });
  model.dense("2_Dense", 64, std::vector<float>(64), {0}, "torch.nn.modules.linear.Identity");
  model.write("2_Dense/config.json",
              R"({"in_features":64,"out_features":2,"activation_function":"torch.nn.Tanh"})");
  expect_error("linear.weight of shape [2, 64]", [&] { model.load(); });
  // What a file declares is not allocated before the tensor is seen to be there.
  model.write("2_Dense/config.json",
              R"({"in_features":64,"out_features":65536,"activation_function":"torch.nn.Tanh"})");
  expect_error("linear.weight of shape [65536, 64]", [&] { model.load(); });
}

}  // namespace
}  // namespace bertie
