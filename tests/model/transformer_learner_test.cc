// Learning of the encoder-decoder: gradients against differences of the loss, and what must not change them.
// Against transformers: gradient_golden_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "bertie/error.h"
#include "bertie/transformer.h"
#include "core/random.h"
#include "model/learner.h"
#include "model/learning.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::distance, test::enlarge, test::gradients, test::norm;

// Smooth everywhere, and with every kind of dropout.
const TransformerConfig kSmall{.encoder_layers = 2,
                               .decoder_layers = 3,
                               .hidden = 36,
                               .encoder_heads = 3,
                               .decoder_heads = 2,
                               .encoder_ffn = 50,
                               .decoder_ffn = 41,
                               .vocabulary = 60,
                               .positions = 20,
                               .activation = "gelu",
                               .pad_id = -1,
                               .dropout = 0.1,
                               .attention_dropout = 0.15,
                               .activation_dropout = 0.2};

// Pairs of texts of these lengths, random, and for each token of the second one that should come next.
struct Pairs {
  std::vector<int32_t> ids, offsets{0}, target_ids, target_offsets{0}, targets;
  LossTerm term{.head = Head::kCausalLm};

  explicit Pairs(const std::vector<std::pair<int, int>>& lengths = {{9, 4}, {1, 7}, {14, 1}, {5, 12}}) {
    Random random(5);
    const auto draw = [&] { return int32_t(random.below(uint32_t(kSmall.vocabulary))); };
    for (const auto& [n, m] : lengths) {
      for (int i = 0; i < n; ++i) ids.push_back(draw());
      for (int i = 0; i < m; ++i) {
        target_ids.push_back(i == 0 ? kSmall.start_id : draw());
        targets.push_back(draw());
      }
      offsets.push_back(int32_t(ids.size())), target_offsets.push_back(int32_t(target_ids.size()));
    }
    term.scale = 1 / float(targets.size());
    term.targets = targets;
  }
  TrainingBatch training(std::optional<uint64_t> seed = {}) const {
    return {.batch = {.ids = ids, .offsets = offsets},
            .target = {.ids = target_ids, .offsets = target_offsets},
            .terms = {&term, 1},
            .dropout_seed = seed};
  }
};

std::unique_ptr<Learner> large_learner(const LearnerOptions& options,
                                       const TransformerConfig& config = kSmall) {
  auto learner = make_learner(config, 1, options);
  enlarge(*learner);
  return learner;
}

const Segment& segment(const Learner& learner, const std::string& name) {
  for (const Segment& s : learner.segments())
    if (s.name == name) return s;
  throw Error("no segment " + name);
}

TEST(TransformerLearner, GradientIsTheLosssSlope) {
  const Pairs pairs;
  for (const bool scaled : {true, false})
    for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
      TransformerConfig config = kSmall;
      config.scale_embedding = scaled;
      const auto learner = large_learner({.threads = 2}, config);
      const Segment& bias = segment(*learner, "final_logits_bias");  // does not learn
      std::fill_n(learner->parameters().begin() + ptrdiff_t(bias.first), bias.count, 0.0f);
      test::expect_slope(*learner, pairs.training(seed));
    }
}

TEST(TransformerLearner, RecomputingGivesTheSameBits) {
  const Pairs pairs;
  EXPECT_EQ(gradients(*large_learner({.threads = 1}), pairs.training(7)),
            gradients(*large_learner({.threads = 2, .recompute = true}), pairs.training(7)));
}

TEST(TransformerLearner, DropoutChangesTheGradientAndTheSeedDecidesIt) {
  const Pairs pairs;
  const auto learner = large_learner({.threads = 2});
  const std::vector<float> a = gradients(*learner, pairs.training(7));
  EXPECT_EQ(a, gradients(*learner, pairs.training(7)));
  EXPECT_GT(distance(a, gradients(*learner, pairs.training(8))), 0.01 * norm(a));
  EXPECT_GT(distance(a, gradients(*learner, pairs.training())), 0.01 * norm(a));
}

TEST(TransformerLearner, CutIntoPairsTheGradientIsTheSame) {
  const Pairs pairs;
  const auto learner = large_learner({.threads = 2});
  const std::vector<float> whole = gradients(*learner, pairs.training(7));
  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  for (size_t s = 0; s + 1 < pairs.offsets.size(); ++s) {
    const auto part = [&](const std::vector<int32_t>& all, const std::vector<int32_t>& offsets) {
      return std::span(all).subspan(size_t(offsets[s]), size_t(offsets[s + 1] - offsets[s]));
    };
    const auto source = part(pairs.ids, pairs.offsets), target = part(pairs.target_ids, pairs.target_offsets);
    const int32_t source_offsets[] = {0, int32_t(source.size())},
                  target_offsets[] = {0, int32_t(target.size())};
    LossTerm term = pairs.term;
    term.targets = part(pairs.targets, pairs.target_offsets);
    std::vector<LossSum> sums(1);
    learner->learn({.batch = {.ids = source, .offsets = source_offsets},
                    .target = {.ids = target, .offsets = target_offsets},
                    .terms = {&term, 1},
                    .dropout_seed = 7,
                    .first_sequence = uint32_t(s)},
                   sums);
  }
  EXPECT_LT(distance(whole, learner->gradients()), 1e-5 * norm(whole));
}

TEST(TransformerLearner, RowsWithoutTargetCountForNothing) {
  const Pairs pairs;
  const auto learner = large_learner({.threads = 2});
  std::vector<int32_t> rows, some, full(pairs.targets.size(), -1);
  for (size_t i = 0; i < full.size(); i += 3)
    rows.push_back(int32_t(i)), some.push_back(pairs.targets[i]), full[i] = pairs.targets[i];
  const LossTerm sparse{.head = Head::kCausalLm, .rows = rows, .targets = some},
      dense{.head = Head::kCausalLm, .targets = full};
  TrainingBatch training = pairs.training();
  training.terms = {&sparse, 1};
  const std::vector<float> a = gradients(*learner, training);
  training.terms = {&dense, 1};
  EXPECT_LT(distance(a, gradients(*learner, training)), 1e-6 * norm(a));
}

TEST(TransformerLearner, EvaluatingIsTheModelsOwnForward) {
  const Pairs pairs;
  const auto learner = large_learner({.threads = 1});
  const test::TempFolder folder;
  learner->save(folder.path());
  const Transformer model = Transformer::load(folder.path());
  TransformerRun run(model, 1);
  const TrainingBatch training = pairs.training(9);  // the seed is not looked at
  std::vector<LossSum> sums(1);
  learner->evaluate(training, sums);
  run.encode(training.batch);
  const Matrix<const float> z = run.decode(training.target).logits;
  double loss = 0;
  size_t right = 0;
  for (size_t r = 0; r < z.rows(); ++r) {
    double sum = 0;
    for (float v : z[r]) sum += std::exp(double(v));
    loss += std::log(sum) - double(z(r, size_t(pairs.targets[r])));
    right += std::max_element(z[r].begin(), z[r].end()) - z[r].begin() == pairs.targets[r];
  }
  EXPECT_NEAR(sums[0].loss, loss, 1e-5 * loss);
  EXPECT_EQ(sums[0].right, right);
  EXPECT_EQ(sums[0].count, z.rows());

  const auto other = make_learner(kSmall, 2, {.threads = 1});
  EXPECT_TRUE(other->load(folder.path()).empty());
  EXPECT_TRUE(
      std::equal(learner->parameters().begin(), learner->parameters().end(), other->parameters().begin()));
}

// As in transformers, where it is a constant row of the table; the output's part of the tie learns.
TEST(TransformerLearner, PaddingIsNotTaughtByBeingRead) {
  TransformerConfig config = kSmall;
  config.pad_id = config.start_id;
  const Pairs pairs;
  const auto learner = large_learner({.threads = 1}), padded = large_learner({.threads = 1}, config);
  const std::vector<float> a = gradients(*learner, pairs.training()),
                           b = gradients(*padded, pairs.training());
  const size_t row = segment(*learner, "model.shared.weight").first + size_t(config.start_id) * config.hidden;
  const std::span<const float> of_a(a.data() + row, config.hidden), of_b(b.data() + row, config.hidden);
  EXPECT_GT(distance(of_a, of_b), 0.1 * norm(of_a));
  EXPECT_GT(norm(of_b), 0.0);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + ptrdiff_t(row), b.begin()));
  EXPECT_TRUE(std::equal(a.begin() + ptrdiff_t(row + config.hidden), a.end(),
                         b.begin() + ptrdiff_t(row + config.hidden)));
}

TEST(TransformerLearner, SaysWhatIsFinalFromTheEndOn) {
  const Pairs pairs;
  const auto learner = large_learner({.threads = 1});
  const std::vector<float> final_gradients = gradients(*learner, pairs.training());
  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  std::vector<LossSum> sums(1);
  size_t last = learner->gradients().size(), calls = 0;
  learner->learn(pairs.training(), sums, [&](size_t first) {
    EXPECT_LT(first, last);
    last = first, ++calls;
    EXPECT_TRUE(std::equal(final_gradients.begin() + ptrdiff_t(first), final_gradients.end(),
                           learner->gradients().begin() + ptrdiff_t(first)));
  });
  EXPECT_EQ(last, 0u);
  EXPECT_EQ(calls, kSmall.encoder_layers + kSmall.decoder_layers + 1);
}

TEST(TransformerLearner, WhatDoesNotFitIsAnError) {
  const auto learner = make_learner(kSmall, 1, {.threads = 1});
  const Pairs pairs;
  std::vector<LossSum> sums(1), none;
  EXPECT_THROW(learner->learn(pairs.training(), none), Error);
  TrainingBatch training = pairs.training();
  const LossTerm other{.head = Head::kMaskedLm, .targets = pairs.targets};
  training.terms = {&other, 1};
  EXPECT_THROW(learner->learn(training, sums), Error);
  training = pairs.training();
  training.target.offsets = std::span(pairs.target_offsets).first(3);
  EXPECT_THROW(learner->learn(training, sums), Error);
  const LossTerm few{.head = Head::kCausalLm, .targets = std::span(pairs.targets).first(3)};
  training = pairs.training();
  training.terms = {&few, 1};
  EXPECT_THROW(learner->learn(training, sums), Error);
  const std::vector<float> logits(pairs.targets.size() * kSmall.vocabulary);
  const Matrix<const float> teacher(logits.data(), pairs.targets.size(), kSmall.vocabulary);
  const LossTerm cold{.head = Head::kCausalLm, .teacher = teacher, .temperature = 0};
  const LossTerm both{.head = Head::kCausalLm, .targets = pairs.targets, .teacher = teacher};
  for (const LossTerm& term : {cold, both}) {
    training.terms = {&term, 1};
    EXPECT_THROW(learner->learn(training, sums), Error);
  }
  EXPECT_NO_THROW(learner->learn(pairs.training(), sums));
}

}  // namespace
}  // namespace bertie
