#include <algorithm>
#include <cmath>

#include "bertie/train.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "train/loop/batch_step.h"
#include "train/loop/optimizer.h"
#include "train/model_sizes.h"

namespace bertie {
namespace {

constexpr double kRate = 1e-5, kMaskRate = 0.15;

size_t masked(size_t length) { return std::max<size_t>(1, size_t(std::lround(kMaskRate * double(length)))); }

// Sequences of one length whose tokens, masks and labels are random, the same for every step.
class RandomSource final : public BatchSource {
 public:
  RandomSource(size_t vocabulary, size_t length) : vocabulary_(vocabulary), length_(length) {}

  std::span<const TermSpec> terms() const override { return terms_; }
  void begin_step(size_t) override {}
  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (size_t s = first; s < first + count; ++s) {
      Random random(7, s);
      const auto token = [&] { return int32_t(random.below(uint32_t(vocabulary_))); };
      size_t left = masked(length_);
      for (size_t i = 0; i < length_; ++i) {
        // Each token is chosen with the probability that gives `left` of the rest.
        if (random.below(uint32_t(length_ - i)) < left) {
          into.terms[0].rows.push_back(int32_t(into.ids.size()));
          into.terms[0].targets.push_back(token());
          --left;
        }
        into.ids.push_back(token());
        into.types.push_back(i > length_ / 2);
      }
      into.offsets.push_back(int32_t(into.ids.size()));
      into.terms[1].targets.push_back(int32_t(random.below(2)));
    }
  }
  std::string cursor() const override { return {}; }
  void seek(const std::string&) override {}
  double epochs() const override { return 0; }

 private:
  size_t vocabulary_, length_;
  const std::vector<TermSpec> terms_ = {{"token", Head::kMaskedLm}, {"label", Head::kNextSentence}};
};

std::vector<Head> heads_of(const BatchSource& source) {
  std::vector<Head> heads;
  for (const TermSpec& term : source.terms()) heads.push_back(term.head);
  return heads;
}

TrainOptions with_rate() {
  TrainOptions options;
  options.rate = kRate;
  return options;
}

}  // namespace

struct PretrainBenchmark::State {
  explicit State(const Options& o)
      : options(o),
        config(config_of_size(o.size, false)),
        source(std::make_unique<RandomSource>(config.vocabulary, o.length)),
        learner(make_learner(config, heads_of(*source), 1,
                             {.threads = o.threads, .recompute = o.recompute, .bf16 = o.bf16})),
        optimizer(*learner, with_rate()),
        step(*learner, *alone, *source,
             {.batch = o.batch, .accumulate = o.accumulate, .max_length = o.length}) {}

  Options options;
  Config config;
  std::unique_ptr<BatchSource> source;
  std::unique_ptr<Learner> learner;
  Optimizer optimizer;
  std::unique_ptr<Collective> alone = join_ranks();
  BatchStep step;
  uint64_t steps = 0;
};

PretrainBenchmark::PretrainBenchmark(const Options& options) : state_(std::make_unique<State>(options)) {}
PretrainBenchmark::~PretrainBenchmark() = default;
PretrainBenchmark::PretrainBenchmark(PretrainBenchmark&&) noexcept = default;
PretrainBenchmark& PretrainBenchmark::operator=(PretrainBenchmark&&) noexcept = default;

bool PretrainBenchmark::bf16() const { return state_->options.bf16 && kernels::has_bf16_products(); }

void PretrainBenchmark::step() {
  double seconds = 0;
  state_->step.learn(++state_->steps, seconds);
  state_->optimizer.step(kRate);
}

// The backward pass of a product is two products of its size.
double PretrainBenchmark::operations() const {
  const Config& c = state_->config;
  const size_t length = state_->options.length;
  const auto hidden = double(c.hidden), n = double(length), b = double(state_->options.batch);
  const double layer = 2 * (4 * hidden * hidden + 2 * hidden * double(c.intermediate)) + 4 * n * hidden;
  const double prediction = 2 * hidden * hidden + 2 * hidden * double(c.vocabulary);
  const double sentence = 2 * hidden * hidden + 4 * hidden;
  return 3 * b * (n * layer * double(c.layers) + double(masked(length)) * prediction + sentence);
}

size_t PretrainBenchmark::state_bytes() const { return 4 * state_->learner->parameters().size_bytes(); }
size_t PretrainBenchmark::activation_bytes() const { return state_->learner->memory(); }

}  // namespace bertie
