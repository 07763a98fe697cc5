#pragma once
// Something small that learns, and something to learn from, for tests of what is around them.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "core/arena.h"
#include "core/random.h"
#include "io/atomic_file.h"
#include "io/safetensors_writer.h"
#include "train/data/batch_source.h"
#include "train/loop/trainer.h"

namespace bertie::test {

// Checkpoints are brought to the disk again and again; where there is a folder in memory, that costs nothing.
inline const bool kFoldersInMemory = access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", 0) == 0;

// One number for each token: the loss of a row is (p[id] − target)²/2, and of a sequence's label likewise
// with one more number. So a step's gradient is simple: (p[id] − target)·scale.
class FakeLearner : public Learner {
 public:
  explicit FakeLearner(size_t vocabulary = 50, int threads = 1, size_t more = 0)
      : vocabulary_(vocabulary), memory_((vocabulary + 1 + more) * 2 * sizeof(float)), team_(threads) {
    const size_t n = vocabulary + 1 + more;
    parameters_ = {memory_.as<float>(), n};
    gradients_ = {memory_.as<float>() + n, n};
    segments_ = {{"table", 0, vocabulary + more, true}, {"bias", vocabulary + more, 1, false}};
    Random random(3);
    for (float& p : parameters_) p = random.normal();
  }

  const std::vector<TensorSpec>& tensors() const override { return none_; }
  const std::vector<TensorSpec>& gradient_tensors() const override { return none_; }
  size_t memory() const override { return 0; }
  Team& team() override { return team_; }
  void reserve(size_t, size_t, size_t) override {}

  void learn(const TrainingBatch& training, std::span<LossSum> sums, const Ready& ready) override {
    pass(training, sums, true);
    if (spoil) spoil(gradients_);
    if (ready) ready(vocabulary_), ready(0);
  }
  void evaluate(const TrainingBatch& training, std::span<LossSum> sums) override {
    pass(training, sums, false);
  }

  void save(const std::filesystem::path& directory, Precision) const override {
    if (saving) saving();
    io::AtomicFile config(directory / "config.json");
    config.write("{}\n");
    config.commit();
    const std::span<const float> p = parameters_;
    const io::TensorSource tensor{
        .name = "p", .shape = {p.size()}, .read = [p](size_t first, std::span<float> out) {
          std::copy_n(p.data() + first, out.size(), out.data());
        }};
    io::write_safetensors(directory / "model.safetensors", io::DType::kF32, {&tensor, 1});
  }
  std::vector<std::string> load(const ModelFiles& files, const LearnerLoad& = {}) override {
    const io::SafeTensors tensors = io::SafeTensors::open(files);
    io::to_float(*tensors.find("p"), 0, parameters_);
    return {};
  }

  std::function<void()> saving;                     // told when a checkpoint is being written
  std::function<void(std::span<float>)> spoil;      // changes the gradients
  std::vector<std::pair<uint64_t, uint32_t>> seen;  // dropout seeds, first sequences

 private:
  void pass(const TrainingBatch& training, std::span<LossSum> sums, bool gradient) {
    if (gradient && keeps_account)
      seen.emplace_back(training.dropout_seed.value_or(0), training.first_sequence);
    const auto row = [&](size_t parameter, int32_t target, float scale, LossSum& sum) {
      const float difference = parameters_[parameter] - float(target) * 0.01f;
      sum.loss += double(difference * difference) / 2;
      ++sum.count;
      sum.right += std::abs(difference) < 0.1f;
      if (gradient) gradients_[parameter] += difference * scale;
    };
    for (size_t g = 0; g < training.terms.size(); ++g) {
      const LossTerm& term = training.terms[g];
      for (size_t i = 0; i < term.targets.size(); ++i)
        if (term.targets[i] >= 0)
          row(term.head == Head::kMaskedLm ? size_t(training.batch.ids[size_t(term.rows[i])]) : vocabulary_,
              term.targets[i], term.scale, sums[g]);
    }
  }

  size_t vocabulary_;
  Block memory_;
  Team team_;
  std::vector<TensorSpec> none_;

 public:
  bool keeps_account = false;
};

inline const std::vector<TermSpec> kFakeTerms = {{"token", Head::kMaskedLm}, {"label", Head::kNextSentence}};

// Sequence i of the stream holds tokens that are a function of i; half of them have targets.
class FakeSource : public BatchSource {
 public:
  explicit FakeSource(size_t vocabulary = 50, std::vector<TermSpec> terms = kFakeTerms)
      : vocabulary_(vocabulary), terms_(std::move(terms)) {}

  std::span<const TermSpec> terms() const override { return terms_; }

  void begin_step(size_t count) override { first_ = next_, next_ += count; }
  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (size_t s = first; s < first + count; ++s) {
      Random random(11, first_ + s);
      const size_t length = 4 + random.below(5);
      for (size_t i = 0; i < length; ++i) {
        if (random.below(2) == 0) {
          into.terms[0].rows.push_back(int32_t(into.ids.size()));
          into.terms[0].targets.push_back(int32_t(random.below(100)));
        }
        into.ids.push_back(int32_t(random.below(uint32_t(vocabulary_))));
        into.types.push_back(0);
      }
      into.offsets.push_back(int32_t(into.ids.size()));
      for (size_t t = 1; t < into.terms.size(); ++t)
        into.terms[t].targets.push_back(int32_t(random.below(2)));
    }
  }
  std::string cursor() const override { return std::to_string(next_); }
  void seek(const std::string& cursor) override { next_ = std::stoull(cursor); }
  double epochs() const override { return double(next_) / 1000; }

 private:
  size_t vocabulary_;
  std::vector<TermSpec> terms_;
  size_t first_ = 0, next_ = 0;
};

// A run of 40 steps that saves every 10.
inline TrainOptions fake_options(const std::filesystem::path& out) {
  TrainOptions o;
  o.out = out;
  o.batch = 8, o.steps = 40, o.rate = 0.05, o.warmup = 0.1;
  o.save_every = 10, o.save_seconds = 0, o.eval_every = 0, o.log_every = 1;
  return o;
}

}  // namespace bertie::test
