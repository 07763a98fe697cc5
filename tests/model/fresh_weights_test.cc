// Parameters before anything was learned.
#include <gtest/gtest.h>

#include <algorithm>

#include "bertie/error.h"
#include "model/learner.h"
#include "support/expect_error.h"

namespace bertie {
namespace {

Config small(const std::string& model_type = "bert") {
  Config c;
  c.model_type = model_type;
  c.layers = 2, c.hidden = 24, c.heads = 3, c.intermediate = 40, c.vocabulary = 50, c.positions = 20;
  if (model_type == "albert") c.embedding = 10, c.groups = 1;
  if (model_type == "gpt2") c.types = 0, c.pad_id = -1, c.bos_id = c.eos_id = 49;
  return c;
}

TEST(FreshWeights, FollowTheConfigsRange) {
  Config wide = small();
  wide.initializer_range = 0.1;
  const std::string json = wide.to_json();
  const Config read = Config::load(ModelFiles::in_memory({{"config.json", std::as_bytes(std::span(json))}}));
  EXPECT_EQ(read.initializer_range, 0.1);
  const auto a = make_learner(small(), {Head::kMaskedLm}, 3, {.threads = 1});
  const auto b = make_learner(wide, {Head::kMaskedLm}, 3, {.threads = 1});
  for (const Segment& s : a->segments())
    for (size_t i = s.first; i < s.first + s.count && s.decays; ++i)
      ASSERT_NEAR(b->parameters()[i], 5 * a->parameters()[i], 1e-6) << s.name;
}

// The heads of fresh weights that are to look nearby do: at one word ahead or back, or at some more.
TEST(FreshWeights, HaveHeadsThatLookNearby) {
  Config config = small();
  config.layers = 2, config.hidden = 256, config.heads = 8, config.positions = 96;
  const auto learner = make_learner(config, {Head::kMaskedLm}, 3, {.threads = 1, .nearby = true});
  const Model model = learner->view();
  bertie::Run run(model, 1);
  std::vector<int32_t> ids(96);
  const std::vector<int32_t> offsets_of_one{0, 96};
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(i * 7 % config.vocabulary);
  const auto out = run.forward({.ids = ids, .offsets = offsets_of_one}, {.all_attention = true});
  const std::vector<std::vector<int>> nearby{{-1, 1, -2, 2, -4, 4}, {-1, 1, -3, 3, -6, 6}};
  for (size_t l = 0; l < 2; ++l)
    for (size_t h = 0; h < 8; ++h) {
      const auto weights = out.attention(l, 0, h);
      size_t found = 0;
      double weight = 0;  // on the word that it is to look at
      for (size_t p = 6; p < 90; ++p) {
        const float* row = weights.row(p);
        const float* best = std::max_element(row, row + weights.cols());
        if (h < 6)
          found += best - row == int(p) + nearby[l][h], weight += row[int(p) + nearby[l][h]] / 84;
        else
          EXPECT_LT(*best, 0.1f) << "a random head";
      }
      EXPECT_TRUE(h >= 6 || (weight > 0.1 && weight < 0.6)) << weight;
      EXPECT_TRUE(h >= 6 || found > 75) << found << " of 84, layer " << l << ", head " << h;
    }
  for (const char* other : {"albert", "gpt2"})
    test::expect_error("`initial` nearby is for encoders",
                       [&] { make_learner(small(other), {}, 3, {.threads = 1, .nearby = true}); });
}

}  // namespace
}  // namespace bertie
