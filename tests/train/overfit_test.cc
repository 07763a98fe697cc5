// A model that learns can learn one batch by heart.
#include <gtest/gtest.h>

#include "core/random.h"
#include "model/learner.h"
#include "train/loop/optimizer.h"

namespace bertie {
namespace {

struct ByHeart {
  std::string type;
  std::vector<Head> heads;
};

TEST(Overfit, OneBatchIsLearnedByHeart) {
  using enum Head;
  for (const ByHeart& c : {ByHeart{"bert", {kMaskedLm, kNextSentence}},
                           {"albert", {kMaskedLm, kNextSentence}},
                           {"roberta", {kMaskedLm}},
                           {"distilbert", {kMaskedLm}},
                           {"gpt2", {kCausalLm}}}) {
    Config config;
    config.model_type = c.type;
    config.layers = 2, config.hidden = 64, config.heads = 4, config.intermediate = 128,
    config.vocabulary = 100;
    config.positions = 40, config.pad_id = c.type == "gpt2" ? -1 : 1;
    if (c.type == "gpt2" || c.type == "distilbert") config.types = 0;
    const auto learner = make_learner(config, c.heads, 1, {.threads = 2});
    Random random(3);
    std::vector<int32_t> ids, offsets{0}, rows, targets, labels;
    for (int32_t n : {24, 17, 31, 9}) {
      for (int32_t i = 0; i < n; ++i) {
        if (i % 4 == 1) rows.push_back(int32_t(ids.size())), targets.push_back(int32_t(random.below(100)));
        ids.push_back(int32_t(2 + random.below(98)));
      }
      offsets.push_back(int32_t(ids.size()));
      labels.push_back(n % 2);
    }
    std::vector<LossTerm> terms{
        {.head = c.heads[0], .rows = rows, .targets = targets, .scale = 1 / float(rows.size())}};
    if (c.heads.size() > 1) terms.push_back({.head = kNextSentence, .targets = labels, .scale = 0.25f});
    TrainOptions options;
    options.decay = 0, options.rate = 5e-3;
    Optimizer optimizer(*learner, options);
    double loss = 0;
    for (int step = 0; step < 250; ++step) {
      std::vector<LossSum> sums(terms.size());
      learner->learn({.batch = {.ids = ids, .offsets = offsets}, .terms = terms}, sums);
      loss = 0;
      for (size_t i = 0; i < terms.size(); ++i) loss += double(terms[i].scale) * sums[i].loss;
      optimizer.step(options.rate * std::min(1.0, (step + 1) / 20.0));
    }
    EXPECT_LT(loss, 1e-3) << c.type;
  }
}

}  // namespace
}  // namespace bertie
