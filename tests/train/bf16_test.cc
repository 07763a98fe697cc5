// Learning with products in bf16: nearly fp32's gradients, and its losses.
#include "support/bf16.h"

#include <gtest/gtest.h>

#include "model/learning.h"
#include "train/optimiser.h"

namespace bertie {
namespace {

Config small_bert() {
  Config c;
  c.layers = 2, c.hidden = 32, c.heads = 2, c.intermediate = 64, c.vocabulary = 50, c.positions = 16;
  return c;
}

struct Text {
  std::vector<int32_t> ids, offsets{0}, rows, targets;
  LossTerm term{.head = Head::kMaskedLm};

  Text() {
    Random random(3);
    for (int32_t n : {12, 7, 15, 4}) {
      for (int32_t i = 0; i < n; ++i) {
        if (i % 4 == 1) rows.push_back(int32_t(ids.size())), targets.push_back(int32_t(random.below(50)));
        ids.push_back(int32_t(random.below(50)));
      }
      offsets.push_back(int32_t(ids.size()));
    }
    term.rows = rows, term.targets = targets, term.scale = 1 / float(rows.size());
  }
  TrainingBatch training() const {
    return {.batch = {.ids = ids, .offsets = offsets}, .terms = {&term, 1}, .dropout_seed = 7};
  }
};

std::unique_ptr<Learner> bert(const LearnerOptions& options) {
  return make_learner(small_bert(), {Head::kMaskedLm}, 1, options);
}

TEST(Bf16Learning, GradientsAreNearlyThoseOfFp32AndTheSameForAnyTeam) {
  const test::Bf16Instruction instruction;
  const Text text;
  const auto gradients = [&](const LearnerOptions& options) {
    return test::gradients(*bert(options), text.training());
  };
  const auto exact = gradients({.threads = 1}), rounded = gradients({.threads = 1, .bf16 = true});
  EXPECT_LT(test::distance(exact, rounded), 0.02 * test::norm(exact));
  EXPECT_GT(test::distance(exact, rounded), 1e-5 * test::norm(exact));  // it does round
  EXPECT_EQ(rounded, gradients({.threads = 2, .bf16 = true}));
  EXPECT_EQ(rounded, gradients({.threads = 3, .recompute = true, .bf16 = true}));
}

TEST(Bf16Learning, AnEncoderDecodersToo) {
  const test::Bf16Instruction instruction;
  TransformerConfig config;
  config.encoder_layers = config.decoder_layers = 1, config.hidden = 32;
  config.encoder_heads = config.decoder_heads = 2, config.encoder_ffn = config.decoder_ffn = 48;
  config.vocabulary = 50, config.positions = 16;
  const Text text;
  LossTerm term = text.term;
  term.head = Head::kCausalLm;
  const Batch batch{.ids = text.ids, .offsets = text.offsets};
  const auto gradients = [&](const LearnerOptions& options) {
    return test::gradients(*make_learner(config, 1, options),
                           {.batch = batch, .target = batch, .terms = {&term, 1}, .dropout_seed = 7});
  };
  const auto exact = gradients({.threads = 1}), rounded = gradients({.threads = 1, .bf16 = true});
  EXPECT_LT(test::distance(exact, rounded), 0.02 * test::norm(exact));
  EXPECT_GT(test::distance(exact, rounded), 1e-5 * test::norm(exact));
  EXPECT_EQ(rounded, gradients({.threads = 2, .recompute = true, .bf16 = true}));
}

TEST(Bf16Learning, LossesAreThoseOfFp32) {
  const test::Bf16Instruction instruction;
  const Text text;
  const auto losses = [&](bool bf16) {
    const auto learner = bert({.threads = 2, .bf16 = bf16});
    TrainOptions options;
    options.rate = 2e-3;
    Optimiser optimiser(*learner, options);
    std::vector<double> all;
    for (int step = 0; step < 200; ++step) {
      TrainingBatch training = text.training();
      training.dropout_seed.reset();
      all.push_back(test::learn(*learner, training));
      optimiser.step(options.rate);
    }
    return all;
  };
  const auto exact = losses(false), rounded = losses(true);
  EXPECT_LT(exact.back(), 0.1 * exact.front());  // it learns
  for (size_t step : {49, 99, 149, 199}) EXPECT_NEAR(rounded[step], exact[step], 0.02) << step;
}

}  // namespace
}  // namespace bertie
