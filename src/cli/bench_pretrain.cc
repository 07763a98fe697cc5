// `bertie bench pretrain`: whole steps of pre-training on random data with the paper's masks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/bench.h"
#include "cli/measure.h"
#include "cli/output.h"
#include "core/random.h"
#include "train/batch_step.h"
#include "train/model_sizes.h"
#include "train/optimiser.h"

namespace bertie::cli {
namespace {

// Sequences of one length whose tokens, masks (15%) and labels are random, the same for every step.
class RandomLessons final : public BatchSource {
 public:
  RandomLessons(const Config& config, size_t length) : config_(config), length_(length) {}

  static size_t masked(size_t length) {
    return std::max<size_t>(1, size_t(std::lround(0.15 * double(length))));
  }
  void begin_step(size_t) override {}
  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (size_t s = first; s < first + count; ++s) {
      Random random(7, s);
      const auto token = [&] { return int32_t(random.below(uint32_t(config_.vocabulary))); };
      size_t left = masked(length_);
      for (size_t i = 0; i < length_; ++i) {
        // Each token is drawn with the chance that makes `left` of the rest.
        if (random.below(uint32_t(length_ - i)) < left) {
          into.rows.push_back(int32_t(into.ids.size()));
          into.targets.push_back(token());
          --left;
        }
        into.ids.push_back(token());
        into.types.push_back(i > length_ / 2);
      }
      into.offsets.push_back(int32_t(into.ids.size()));
      into.labels.push_back(int32_t(random.below(2)));
    }
  }
  std::string cursor() const override { return {}; }
  void seek(const std::string&) override {}
  double epochs() const override { return 0; }

 private:
  Config config_;
  size_t length_;
};

// Multiplications and additions of the matrix products of a step; docs/pretraining.md has the formula. The
// backward pass of a product is two products of its size.
double step_operations(const Config& c, size_t batch, size_t length) {
  const auto hidden = double(c.hidden), n = double(length), b = double(batch);
  const double layer = 2 * (4 * hidden * hidden + 2 * hidden * double(c.intermediate)) + 4 * n * hidden;
  const double prediction = 2 * hidden * hidden + 2 * hidden * double(c.vocabulary);
  const double sentence = 2 * hidden * hidden + 4 * hidden;
  return 3 * b *
         (n * layer * double(c.layers) + double(RandomLessons::masked(length)) * prediction + sentence);
}

}  // namespace

int bench_pretrain(const BenchOptions& o) {
  const std::string shape_name = o.shape.empty() ? "32x128" : o.shape;
  const BatchShape shape = batch_shape(shape_name);
  std::vector<std::string> sizes{o.size};
  if (o.size.empty()) sizes = {"tiny", "mini", "small"};
  const int threads = o.threads > 0 ? o.threads : available_threads();
  const bool bf16 = false;
  if (o.bf16 && !bf16)
    warn("this processor has no instruction for bf16 (avx512_bf16): measured in fp32",
         "--precision fp32 says so itself");
  const char* const precision = bf16 ? "bf16" : "fp32";
  if (!o.json)
    fmt::print(
        "Steps of pre-training in {} ({}, {} threads): masked tokens and next sentence, dropout, clip, "
        "AdamW.\n\n{:<9}{:<9}{:>10}{:>11}{:>11}{:>10}{:>9}{:>10}{:>10}{:>12}{:>12}\n",
        precision, kernels::instruction_set(), threads, "size", "batch", "best ms", "median ms", "tokens/s",
        "GFLOP/s", "peak", "of peak", "median", "state MB", "passes MB");
  for (const std::string& size : sizes) {
    const Config config = config_of_size(size, false);
    const auto learner = make_learner(config, {Head::kMaskedLm, Head::kNextSentence}, 1,
                                      {.threads = threads, .recompute = o.recompute});
    TrainOptions options;
    options.rate = 1e-5;
    Optimiser optimiser(*learner, options);
    const auto alone = join_ranks();
    RandomLessons source(config, shape.length);
    BatchStep step(*learner, *alone, {.tokens = Head::kMaskedLm, .labels = Head::kNextSentence},
                   {.batch = shape.batch, .accumulate = o.accumulate, .max_length = shape.length});
    const double operations = step_operations(config, shape.batch, shape.length);
    uint64_t steps = 0;
    double seconds = 0;
    const Measured m =
        measure({.seconds = o.seconds > 0 ? o.seconds : 10.0, .least_groups = 3}, operations, threads, [&] {
          step.learn(source, ++steps, seconds);
          optimiser.step(options.rate);
        });
    const double tokens = double(shape.batch * shape.length);
    // Parameters, gradients and two moments.
    const double state = 4.0 * double(learner->parameters().size_bytes()), passes = double(learner->memory());
    if (o.json)
      fmt::print("{}\n", nlohmann::json{{"size", size},
                                        {"shape", shape_name},
                                        {"threads", threads},
                                        {"accumulate", o.accumulate},
                                        {"recompute", o.recompute},
                                        {"precision", precision},
                                        {"milliseconds", m.best * 1e3},
                                        {"median_milliseconds", m.median * 1e3},
                                        {"tokens_per_second", tokens / m.best},
                                        {"median_tokens_per_second", tokens / m.median},
                                        {"gflops", operations / m.best / 1e9},
                                        {"peak_gflops", m.best_peak / 1e9},
                                        {"fraction", operations / m.best / m.best_peak},
                                        {"median_fraction", m.share},
                                        {"operations", operations},
                                        {"state_bytes", state},
                                        {"activation_bytes", passes}}
                             .dump());
    else
      fmt::print(
          "{:<9}{:<9}{:>10.1f}{:>11.1f}{:>11.0f}{:>10.1f}{:>9.1f}{:>9.1f}%{:>9.1f}%{:>12.1f}{:>12.1f}\n",
          size, shape_name, m.best * 1e3, m.median * 1e3, tokens / m.best, operations / m.best / 1e9,
          m.best_peak / 1e9, 100 * operations / m.best / m.best_peak, 100 * m.share, state / 1e6,
          passes / 1e6);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bertie::cli
