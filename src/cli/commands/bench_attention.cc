// `bertie bench attention`: every mechanism of bertie/attention.h from short to long.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "bertie/attention.h"
#include "bertie/bench.h"
#include "cli/commands/attention_report.h"
#include "cli/commands/bench.h"
#include "cli/commands/mechanisms.h"
#include "cli/output.h"
#include "cli/terminal/progress.h"

namespace bertie::cli {
namespace {

constexpr size_t kShortest = 128, kLongest = 16384;
constexpr double kSeconds = 0.2, kLongCall = 2, kPeakSeconds = 0.004;
constexpr int kPeaks = 25;

// Peak resident size of this process, from now on.
class ResidentPeak {
 public:
  ResidentPeak() {
    if (count_resident_peak_anew()) before_ = resident_peak();
  }
  std::optional<size_t> growth() const {
    const std::optional<size_t> now = resident_peak();
    if (!before_ || !now) return std::nullopt;
    return *now - std::min(*before_, *now);
  }

 private:
  std::optional<size_t> before_;
};

// Queries, keys, values and results of one length, shared by all mechanisms.
class Buffers {
 public:
  Buffers(const AttentionShape& s, bool backward) : rows_(s.n), columns_(s.heads * s.head_size) {
    constexpr float kUnitVariance = 1.7320508f;
    for (Matrix<float>* x : {&q, &k, &v}) *x = matrix(kUnitVariance);
    out = matrix(0);
    if (backward) {
      d_out = matrix(kUnitVariance);
      for (Matrix<float>* x : {&dq, &dk, &dv}) *x = matrix(0);
    }
  }
  Matrix<float> q, k, v, out, d_out, dq, dk, dv;

 private:
  Matrix<float> matrix(float size) {
    std::vector<float>& numbers = memory_.emplace_back(rows_ * columns_);
    if (size > 0) fill_randomly(numbers, size, memory_.size());
    return {numbers.data(), rows_, columns_};
  }
  size_t rows_, columns_;
  std::vector<std::vector<float>> memory_;
};

struct Conditions {
  int threads;
  double seconds;
  double
      best_peak;  // operations a second, of the run so far: a call may be shorter than what disturbs a peak
};

AttentionPoint measure_point(const Mechanism& mechanism, const AttentionShape& shape, bool backward,
                             Conditions& conditions, const Buffers& b) {
  ReadyMechanism ready;
  make_ready(mechanism, shape, ready);
  Workspace workspace(conditions.threads);
  ready.options.workspace = &workspace;
  AttentionGradients gradients = ready.gradients;
  gradients.q = b.dq, gradients.k = b.dk, gradients.v = b.dv;
  AttentionSaved saved;
  const double operations = ready.forward + (backward ? ready.backward : 0);
  const ResidentPeak resident;
  const Speed m = measure(
      [&] {
        if (!ready.weights.empty()) {
          attention(b.q, b.k, b.v, b.out, ready.weights, ready.options);
        } else if (!backward) {
          attention(b.q, b.k, b.v, b.out, ready.options);
        } else {
          attention(b.q, b.k, b.v, b.out, saved, ready.options);
          attention_backward(b.q, b.k, b.v, b.out, saved, b.d_out, gradients, ready.options);
        }
      },
      operations, conditions.threads,
      {.seconds = conditions.seconds, .least_groups = 3, .long_call = kLongCall});
  conditions.best_peak = std::max(conditions.best_peak, m.best_peak);
  return {.mechanism = std::string(mechanism.name),
          .backward = backward,
          .n = shape.n,
          .heads = shape.heads,
          .head_size = shape.head_size,
          .threads = size_t(conditions.threads),
          .runs = m.runs,
          .milliseconds = m.best * 1e3,
          .median_milliseconds = m.median * 1e3,
          .gflops = operations / m.best / 1e9,
          .peak_gflops = conditions.best_peak / 1e9,
          .fraction = operations / m.best / conditions.best_peak,
          .median_fraction = m.share,
          .pairs = ready.pairs,
          .memory_bytes = workspace.memory() + saved.log_sums.size() * sizeof(float) + ready.table_bytes,
          .resident_growth_bytes = resident.growth(),
          .resident_peak_bytes = resident_peak()};
}

struct Task {
  const Mechanism* mechanism;
  size_t n;
  bool backward;
};

std::vector<Task> tasks(const Settings& o) {
  std::vector<const Mechanism*> chosen;
  for (const std::string& name : o.mechanisms) chosen.push_back(&mechanism_named(name));
  if (chosen.empty())
    for (const Mechanism& m : mechanisms()) chosen.push_back(&m);
  std::vector<size_t> lengths;
  if (o.n)
    lengths.push_back(*o.n);
  else
    for (size_t n = kShortest; n <= o.max_n.value_or(kLongest); n *= 2) lengths.push_back(n);
  std::vector<Task> all;
  for (size_t n : lengths)
    for (const Mechanism* m : chosen) {
      if (n > m->longest) continue;
      all.push_back({m, n, false});
      if (!o.forward && m->has_backward) all.push_back({m, n, true});
    }
  if (all.empty())
    throw UsageError(fmt::format("{} is measured up to n = {}", chosen[0]->name, chosen[0]->longest),
                     fmt::format("--n {}", chosen[0]->longest));
  return all;
}

}  // namespace

int bench_attention(const Settings& settings) {
  const std::vector<Task> all = tasks(settings);
  Conditions conditions{threads_or_all(settings), seconds_or(settings, kSeconds), 0};
  for (int i = 0; i < kPeaks; ++i)
    conditions.best_peak =
        std::max(conditions.best_peak, peak_operations(Peak::kFloat32, conditions.threads, kPeakSeconds));
  const size_t heads = settings.heads.value_or(12), head_size = settings.head_size.value_or(64);
  if (!settings.json)
    print(
        "Attention in fp32, {} heads of {}, {} thread{} ({}). GFLOP/s counts what the formula asks for, on "
        "keys that\nare seen; peak is fused multiply-adds alone. MiB is the memory beside inputs and "
        "outputs, resident how\nfar the process grew.\n\n{}",
        heads, head_size, conditions.threads, conditions.threads == 1 ? "" : "s", instruction_set(),
        table_header());
  ProgressLine progress(settings, true);
  std::vector<AttentionPoint> points;
  std::unique_ptr<Buffers> buffers;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [mechanism, n, backward] = all[i];
    if (progress.is_due())
      progress.show(fmt::format("{:3.0f}%  n = {}, {}, {}", 100.0 * double(i) / double(all.size()), n,
                                mechanism->name, backward ? "forward and backward" : "forward"));
    const AttentionShape shape{n, heads, head_size};
    if (i == 0 || all[i - 1].n != n) {
      buffers.reset();  // give back first: never hold two
      buffers = std::make_unique<Buffers>(shape, !settings.forward);
    }
    points.push_back(measure_point(*mechanism, shape, backward, conditions, *buffers));
    print(std::string_view(settings.json ? to_json_line(points.back()) : table_row(points.back())));
    flush_output();
  }
  progress.finish(fmt::format("{} measurements", points.size()));
  if (!settings.json) print("\n{}", growth_in_words(points));
  return 0;
}

}  // namespace bertie::cli
