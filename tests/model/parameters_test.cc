#include <gtest/gtest.h>

#include "bertie/model.h"
#include "io/file.h"
#include "io/json.h"
#include "support/data.h"

namespace bertie {
namespace {

TEST(Parameters, OfBaseAndLargeAreTheKnownNumbers) {
  EXPECT_EQ(Config::base().parameters(), 109'482'240u);
  EXPECT_EQ(Config::large().parameters(), 335'141'888u);
}

TEST(Parameters, AreAsManyAsTransformersCounts) {
  const auto file = test::source_dir() / "tests/golden/parameter_counts.json";
  const auto list = io::parse_json(io::MappedFile(file).text(), file.string());
  ASSERT_GE(list.size(), 12u);
  for (const auto& item : list) {
    const auto& c = item["config"];
    const Config config{.layers = c["num_hidden_layers"],
                        .hidden = c["hidden_size"],
                        .heads = c["num_attention_heads"],
                        .intermediate = c["intermediate_size"],
                        .vocabulary = c["vocab_size"],
                        .positions = c["max_position_embeddings"],
                        .types = c["type_vocab_size"]};
    EXPECT_EQ(config.parameters(true), size_t(item["parameters"])) << item["name"];
    EXPECT_EQ(config.parameters(false), size_t(item["parameters_without_pooler"])) << item["name"];
  }
}

TEST(Parameters, OfAModelCountItsPoolerOnlyIfItHasOne) {
  const auto models = test::source_dir() / "tests/golden/models";
  const Model with = Model::load(models / "plain"), without = Model::load(models / "no_pooler");
  EXPECT_EQ(with.parameters(), with.config().parameters(true));
  EXPECT_EQ(without.parameters(), without.config().parameters(false));
  EXPECT_LT(without.config().parameters(false), without.config().parameters(true));
}

TEST(RandomModel, IsTheSameForTheSameSeedAndDifferentForAnother) {
  const Config config{
      .layers = 1, .hidden = 8, .heads = 2, .intermediate = 12, .vocabulary = 20, .positions = 8};
  const std::vector<int32_t> ids{1, 2, 3}, offsets{0, 3};
  const auto first_number = [&](uint64_t seed) {
    bertie::Run run(Model::random(config, seed), 1);
    return run.forward({.ids = ids, .offsets = offsets}).last_hidden(0, 0);
  };
  EXPECT_EQ(first_number(1), first_number(1));
  EXPECT_NE(first_number(1), first_number(2));
}

}  // namespace
}  // namespace bertie
