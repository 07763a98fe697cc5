// A hundred steps of AdamW from the same weights and batches as transformers and PyTorch, which made
// tests/golden/gradients/adamw-100-steps.safetensors in fp64 (tools/make_gradient_goldens.py).
#include <gtest/gtest.h>

#include "support/data.h"
#include "support/targets.h"
#include "support/tensors.h"
#include "train/loop/optimizer.h"

namespace bertie {
namespace {

constexpr double kTolerance = 1e-4;  // of a loss, at every step

// Batches one after the other, each used in turn.
struct Batches {
  test::Expected file{test::source_dir() / "tests/golden/gradients/adamw-100-steps.safetensors"};
  std::vector<int32_t> ids = file.ints("ids"), types = file.ints("types"), offsets = file.ints("offsets"),
                       rows = file.ints("rows"), targets = file.ints("targets"), labels = file.ints("labels"),
                       sequences = file.ints("batch_sequences"), parts = file.ints("batch_rows");

  size_t count() const { return sequences.size() - 1; }
};

// One of them, counting from its own first token.
struct OneBatch {
  std::vector<int32_t> ids, types, offsets, rows, targets, labels;

  OneBatch(const Batches& all, size_t b) {
    const auto part = [](const std::vector<int32_t>& v, int32_t from, int32_t to) {
      return std::vector<int32_t>(v.begin() + from, v.begin() + to);
    };
    const int32_t s = all.sequences[b], end = all.sequences[b + 1], first = all.offsets[size_t(s)];
    ids = part(all.ids, first, all.offsets[size_t(end)]);
    types = part(all.types, first, all.offsets[size_t(end)]);
    offsets = part(all.offsets, s, end + 1);
    labels = part(all.labels, s, end);
    rows = part(all.rows, all.parts[b], all.parts[b + 1]);
    targets = part(all.targets, all.parts[b], all.parts[b + 1]);
    for (auto* v : {&offsets, &rows})
      for (int32_t& place : *v) place -= first;
  }
};

TEST(AdamWGolden, AHundredStepsHaveTheLossesOfTransformers) {
  test::on_every_target([] {
    const Batches all;
    const std::vector<double> settings = all.file.doubles("settings"), losses = all.file.doubles("losses"),
                              token_losses = all.file.doubles("mlm_losses"),
                              norms = all.file.doubles("norms");
    ASSERT_EQ(losses.size(), 100u);
    const std::filesystem::path model = test::source_dir() / "tests/golden/families/bert-pretraining-0";
    const auto learner =
        make_learner(Config::load(model), {Head::kMaskedLm, Head::kNextSentence}, 1, {.threads = 2});
    learner->load(model);
    TrainOptions options;
    options.rate = settings.at(0);
    options.beta1 = settings.at(1), options.beta2 = settings.at(2), options.eps = settings.at(3);
    options.decay = settings.at(4), options.clip = settings.at(5), options.outlier = 0;
    Optimizer optimizer(*learner, options);
    for (size_t step = 0; step < losses.size(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const OneBatch b(all, step % all.count());
      const std::vector<LossTerm> terms = {
          {.head = Head::kMaskedLm,
           .rows = b.rows,
           .targets = b.targets,
           .scale = 1 / float(b.targets.size())},
          {.head = Head::kNextSentence, .targets = b.labels, .scale = 1 / float(b.labels.size())}};
      std::vector<LossSum> sums(2);
      learner->learn({.batch = {.ids = b.ids, .types = b.types, .offsets = b.offsets}, .terms = terms}, sums);
      const double tokens = sums[0].loss / double(sums[0].count);
      EXPECT_NEAR(tokens, token_losses[step], kTolerance);
      EXPECT_NEAR(tokens + sums[1].loss / double(sums[1].count), losses[step], kTolerance);
      const StepTaken taken = optimizer.step(settings.at(0));
      EXPECT_TRUE(taken.taken);
      EXPECT_NEAR(taken.norm, norms[step], kTolerance * norms[step]);
    }
  });
}

}  // namespace
}  // namespace bertie
