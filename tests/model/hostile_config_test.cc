// Configurations and checkpoints that nobody vouches for: each is refused with an Error, or is a model that
// runs.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#define LLVMFuzzerTestOneInput config_fuzz
#include "../../fuzz/config_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput model_fuzz
#include "../../fuzz/model_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "core/random.h"
#include "support/data.h"
#include "support/expect_error.h"

namespace bertie {
namespace {

using test::expect_error;

std::string read(const std::filesystem::path& file) {
  std::ifstream in(test::source_dir() / "tests/golden" / file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
// As the fuzzer wants it.
std::string config_and_header(const std::filesystem::path& model) {
  const std::string weights = read(model / "model.safetensors");
  uint64_t length;
  std::memcpy(&length, weights.data(), sizeof length);
  return read(model / "config.json") + '\0' + weights.substr(sizeof length, length);
}
bool accepts(int (*fuzz)(const uint8_t*, size_t), const std::string& input) {
  return fuzz(reinterpret_cast<const uint8_t*>(input.data()), input.size()) == 0;
}
Config config_of(const std::string& json) {
  return Config::load(config_file(std::as_bytes(std::span(json))));
}

// How many of `count` damaged inputs are accepted.
size_t damaged(int (*fuzz)(const uint8_t*, size_t), const std::string& input, int count, uint64_t seed) {
  Random random(seed);
  size_t accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string copy = input;
    for (uint32_t edits = 1 + random.below(2); edits-- > 0;)
      copy[random.below(uint32_t(copy.size()))] = "0123456789-.{}[]\",: e\xFF"[random.below(22)];
    accepted += accepts(fuzz, copy);
  }
  return accepted;
}

const std::filesystem::path kModels[] = {"families/bert-base-0", "families/albert-base-0",
                                         "families/gpt2-base-2", "families/distilbert-masked-lm-0",
                                         "families/marian-seq2seq-0"};

TEST(HostileConfig, DamagedFilesAreRefusedOrReadAgain) {
  for (const auto& model : kModels) {
    SCOPED_TRACE(model);
    ASSERT_TRUE(accepts(config_fuzz, read(model / "config.json")));
    EXPECT_GT(damaged(config_fuzz, read(model / "config.json"), 2'000, 5), 100u);
  }
}

TEST(HostileModel, DamagedOnesAreRefusedOrRun) {
  for (const auto& model : kModels) {
    SCOPED_TRACE(model);
    ASSERT_TRUE(accepts(model_fuzz, config_and_header(model)));
    damaged(model_fuzz, config_and_header(model), 300, 7);
  }
}

TEST(HostileConfig, AHugeIdIsNotTakenForNone) {
  for (const char* id : {"18446744073709551615", "9223372036854775808", "16777217"})
    expect_error("pad_token_id must be a token's id",
                 [&] { config_of(std::string(R"({"pad_token_id": )") + id + "}"); });
  EXPECT_EQ(config_of(R"({"pad_token_id": -1})").pad_id, -1);
}

TEST(HostileConfig, ARampThatIsInfiniteIsRefused) {
  expect_error("ramp must be above 0",
               [] { config_of(R"({"attention": {"look": "adaptive_span", "ramp": 1e300}})"); });
  EXPECT_TRUE(accepts(config_fuzz, R"({"attention": {"look": "adaptive_span", "ramp": 8.5}})"));
}

TEST(HostileConfig, ManyLabelsAreWrittenInNoTime) {
  const Config config = config_of(R"({"num_labels": 100000})");
  const auto start = std::chrono::steady_clock::now();
  const std::string json = config.to_json();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(config_of(json).labels, config.labels);
}

TEST(HostileConfig, OfTwoLabelsWithOneNameTheLastHasIt) {
  const std::string json = config_of(R"({"id2label": {"0": "a", "1": "b", "2": "a"}})").to_json();
  EXPECT_EQ(nlohmann::json::parse(json)["label2id"], nlohmann::json({{"a", 2}, {"b", 1}}));
  EXPECT_EQ(config_of(json).labels, (std::vector<std::string>{"a", "b", "a"}));
}

}  // namespace
}  // namespace bertie
