// Every way in which a checkpoint can be wrong ends in an Error that names the thing.
#include <gtest/gtest.h>

#include "bertie/model.h"
#include "model/spoiled.h"
#include "support/expect_error.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_error;
using test::rename;

struct Checkpoint : test::Spoiled {
  Checkpoint() : Spoiled("models/plain") {}
  Model load() const { return Model::load(path()); }
};

const std::string kQuery = "bert.encoder.layer.1.attention.self.query.weight";

TEST(LoadErrors, AreNoneForTheCheckpointAsItIs) { EXPECT_NO_THROW(Checkpoint().load()); }

TEST(LoadErrors, NameTheMissingDirectory) {
  expect_error("no model at /no/such/model", [] { Model::load(std::filesystem::path("/no/such/model")); });
  expect_error("there is no model \"/no/such/model\"", [] { Model::load("/no/such/model"); });
}

TEST(LoadErrors, NameTheMissingFile) {
  Checkpoint a, b;
  a.remove("config.json");
  expect_error("config.json", [&] { a.load(); });
  b.remove("model.safetensors");
  expect_error("model.safetensors", [&] { b.load(); });
}

TEST(LoadErrors, NameTheFileThatIsNotJson) {
  Checkpoint c;
  for (const char* broken : {"", "{", "[1, 2", "{\"hidden_size\": }", "not json", "{\"a\":1}{\"b\":2}"}) {
    c.write("config.json", broken);
    expect_error("config.json", [&] { c.load(); });
  }
  c.write("config.json", "[]");
  expect_error("config.json", [&] { c.load(); });
}

TEST(LoadErrors, NameTheKeyOfConfigJson) {
  const std::pair<const char*, json> wrong[] = {
      {"hidden_size", "64"},       {"hidden_size", 0},          {"hidden_size", -64},
      {"hidden_size", 64.5},       {"hidden_size", 1e300},      {"num_hidden_layers", 0},
      {"num_hidden_layers", 1001}, {"num_attention_heads", 0},  {"intermediate_size", 0},
      {"vocab_size", 0},           {"vocab_size", 1u << 31},    {"max_position_embeddings", 0},
      {"type_vocab_size", 0},      {"type_vocab_size", 5000},   {"layer_norm_eps", 0},
      {"layer_norm_eps", -1e-12},  {"layer_norm_eps", "small"}, {"hidden_act", "mish"},
      {"hidden_act", 3},           {"model_type", "gpt9"},      {"model_type", 1},
      {"is_decoder", true},        {"is_decoder", "yes"},       {"position_embedding_type", "relative_key"},
  };
  for (const auto& [key, value] : wrong) {
    Checkpoint c;
    c.config([&](json& j) { j[key] = value; });
    SCOPED_TRACE(value.dump());
    expect_error(key, [&] { c.load(); });
    expect_error("config.json", [&] { c.load(); });
  }
}

TEST(LoadErrors, SayThatHeadsDoNotDivideTheHiddenSize) {
  Checkpoint c;
  c.config([](json& j) { j["num_attention_heads"] = 3; });
  expect_error("hidden_size 64 is not a multiple of num_attention_heads 3", [&] { c.load(); });
}

TEST(LoadErrors, NameTheMissingTensor) {
  for (const char* name : {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
                           "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight",
                           "encoder.layer.0.attention.self.key.bias", "encoder.layer.1.output.LayerNorm.bias",
                           "encoder.layer.1.intermediate.dense.weight", "pooler.dense.bias"}) {
    Checkpoint c;
    c.header([&](json& h) { rename(h, std::string("bert.") + name, "other"); });
    expect_error(name, [&] { c.load(); });
    expect_error("is missing", [&] { c.load(); });
  }
}

TEST(LoadErrors, NameTheTensorThatTheModelHasNoUseFor) {
  Checkpoint c;
  c.header([](json& h) {
    rename(h, "bert.pooler.dense.weight", "bert.poolre.dense.weight");
    rename(h, "bert.pooler.dense.bias", "bert.poolre.dense.bias");
  });
  expect_error("tensor \"bert.poolre.dense.bias\" belongs to nothing",
               [&] { Model::load(c.path(), {.strict = true}); });
  std::vector<std::string> warnings;
  const Model model =
      Model::load(c.path(), {.warning = [&](std::string_view what) { warnings.emplace_back(what); }});
  EXPECT_FALSE(model.has_pooler());
  ASSERT_EQ(warnings.size(), 1u);
  for (const char* part : {"2 tensors", "\"bert.poolre.dense.bias\", \"bert.poolre.dense.weight\""})
    EXPECT_NE(warnings[0].find(part), std::string::npos) << warnings[0];
  EXPECT_NO_THROW(c.load());
  // A misspelt tensor that is needed is missing, and the hint says what may be meant.
  Checkpoint d;
  d.header([](json& h) { rename(h, kQuery, "bert.encoder.layer.1.attention.self.qeury.weight"); });
  try {
    d.load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(kQuery + " is missing"), std::string::npos);
    EXPECT_NE(error.hint().find("bert.encoder.layer.1.attention.self.qeury.weight"), std::string::npos);
  }
}

TEST(LoadErrors, AreNoneForAHeadThatChoosesAmongTexts) {
  Config config{.layers = 1, .hidden = 8, .heads = 2, .intermediate = 8, .vocabulary = 9, .positions = 8};
  config.labels = {"ONE"}, config.architecture = "BertForMultipleChoice";
  const test::TempFolder folder;
  Model::random(config, 1, {Head::kClassify}).save(folder.path());
  EXPECT_FALSE(Model::load(folder.path()).has(Head::kClassify));
}

TEST(LoadErrors, SayWhichFamilyMayBeMeant) {
  Checkpoint c;
  c.config([](json& j) { j["model_type"] = "robreta"; });
  try {
    c.load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"robreta\" is not known"), std::string::npos);
    EXPECT_NE(error.hint().find("did you mean \"roberta\"?"), std::string::npos);
  }
}

TEST(LoadErrors, NameTheTensorOfTheWrongShape) {
  Checkpoint c;
  c.header([](json& h) { h[kQuery]["shape"] = {32, 128}; });
  expect_error(kQuery + " has shape [32, 128] but config.json asks for [64, 64]", [&] { c.load(); });
  Checkpoint flat;
  flat.header([](json& h) { h[kQuery]["shape"] = {4096}; });
  expect_error(kQuery + " has shape [4096]", [&] { flat.load(); });
}

TEST(LoadErrors, NameTheTensorOfTheWrongType) {
  Checkpoint c;
  c.header([](json& h) { h[kQuery]["dtype"] = "I32"; });
  expect_error(kQuery + " is I32; weights must be F32, F16 or BF16", [&] { c.load(); });
}

TEST(LoadErrors, SeeThatConfigAndWeightsAreOfDifferentModels) {
  const std::pair<const char*, int> changes[] = {
      {"vocab_size", 81},     {"vocab_size", 79},        {"max_position_embeddings", 34},
      {"type_vocab_size", 3}, {"intermediate_size", 81}, {"hidden_size", 66}};
  for (const auto& [key, value] : changes) {
    Checkpoint c;
    c.config([&](json& j) { j[key] = value; });
    SCOPED_TRACE(key);
    expect_error("has shape", [&] { c.load(); });
  }
  Checkpoint deeper;
  deeper.config([](json& j) { j["num_hidden_layers"] = 3; });
  expect_error("encoder.layer.2.attention.self.query.weight is missing", [&] { deeper.load(); });
}

TEST(LoadErrors, ComeBeforeMemoryIsTaken) {
  // A config that asks for 2⁴⁰ numbers fails on the first shape, not on the allocation.
  Checkpoint c;
  c.config([](json& j) {
    j["num_hidden_layers"] = 1000, j["hidden_size"] = 65536, j["intermediate_size"] = 1 << 20;
  });
  expect_error("has shape", [&] { c.load(); });
}

TEST(LoadErrors, NameTheFileThatIsCutShort) {
  Checkpoint c;
  const std::string file = c.read("model.safetensors");
  for (size_t length : {size_t{0}, size_t{7}, size_t{100}, file.size() - 1}) {
    c.write("model.safetensors", file.substr(0, length));
    expect_error("model.safetensors", [&] { c.load(); });
  }
}

TEST(ConfigCheck, RefusesWhatMakesNoModel) {
  expect_error("num_attention_heads", [] { Model::random({.hidden = 10, .heads = 3}); });
  expect_error("hidden_act", [] { Model::random({.activation = "mish"}); });
  expect_error("vocab_size", [] { Model::random({.vocabulary = 0}); });
}

}  // namespace
}  // namespace bertie
