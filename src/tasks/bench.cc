#include "bertie/bench.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "attention/look.h"
#include "core/arena.h"
#include "core/parallel.h"
#include "core/system.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "kernels/instruction_set.h"
#include "kernels/peak.h"

namespace bertie {
int core_count() { return available_threads(); }
std::optional<size_t> resident_peak() { return resident_peak_bytes(); }
bool count_resident_peak_anew() { return count_resident_peak_bytes_anew(); }

const char* instruction_set() { return kernels::instruction_set(); }

namespace {

double measured_peak(Peak of, Team& team, double seconds) {
  return of == Peak::kInt8 ? kernels::int8_peak(team, seconds) : kernels::fma_peak(team, seconds);
}

}  // namespace

double peak_operations(Peak of, int threads, double seconds) {
  Team team(threads);
  return measured_peak(of, team, seconds);
}

Speed measure(const std::function<void()>& work, double operations, int threads,
              const MeasureOptions& options) {
  constexpr double kPeakSeconds = 0.004, kGroupSeconds = 0.04;
  Team team(threads);
  const auto peak = [&] { return measured_peak(options.peak, team, kPeakSeconds); };
  const double first_peak = peak();
  const Stopwatch first;
  work();  // warm-up
  const double first_seconds = first.seconds();
  double before = peak(), best_peak = before;
  if (first_seconds > options.long_call)
    return {.best = first_seconds,
            .median = first_seconds,
            .p99 = first_seconds,
            .best_peak = std::max(first_peak, before),
            .share = operations / first_seconds / ((first_peak + before) / 2),
            .runs = 1};
  std::vector<double> times, shares;
  const Stopwatch begin;
  do {
    size_t calls = 0;
    const Stopwatch group;
    do {
      const Stopwatch start;
      work();
      times.push_back(start.seconds());
      ++calls;
    } while (group.seconds() < kGroupSeconds);
    const double rate = operations * double(calls) / group.seconds();
    const double after = peak();
    shares.push_back(rate / ((before + after) / 2));
    best_peak = std::max(best_peak, after);
    before = after;
  } while (begin.seconds() < options.seconds || shares.size() < options.least_groups);
  std::sort(times.begin(), times.end());
  std::sort(shares.begin(), shares.end());
  return {.best = times.front(),
          .median = times[times.size() / 2],
          .p99 = times[times.size() * 99 / 100],
          .best_peak = best_peak,
          .share = shares[shares.size() / 2],
          .runs = times.size()};
}

struct LinearBenchmark::State {
  static constexpr size_t kWeightBytes = size_t{48} << 20;  // of all copies together

  State(size_t row_count, size_t output_count, size_t input_count, int threads)
      : rows(row_count),
        outputs(output_count),
        inputs(input_count),
        floats(kernels::packed_floats(outputs, inputs)),
        copies(std::max<size_t>(1, kWeightBytes / (floats * sizeof(float)))),
        weights(copies * floats * sizeof(float)),
        bias(outputs * sizeof(float) + 4096),
        x(rows * inputs * sizeof(float)),
        y(rows * outputs * sizeof(float)),
        team(threads) {
    Random random(3);
    for (size_t i = 0; i < copies * floats; ++i) weights.as<float>()[i] = float(i % 17) * 0.01f - 0.08f;
    for (size_t i = 0; i < rows * inputs; ++i) x.as<float>()[i] = random.uniform();
  }
  size_t rows, outputs, inputs, floats, copies, copy = 0;
  Block weights, bias, x, y;
  Team team;
};

LinearBenchmark::LinearBenchmark(size_t rows, size_t outputs, size_t inputs, int threads)
    : state_(std::make_unique<State>(rows, outputs, inputs, threads)) {}
LinearBenchmark::~LinearBenchmark() = default;

void LinearBenchmark::run() {
  State& s = *state_;
  kernels::linear_forward(
      {s.x.as<float>(), s.rows, s.inputs},
      {s.weights.as<float>() + s.floats * (s.copy++ % s.copies), s.bias.as<float>(), s.inputs, s.outputs},
      kernels::Activation::kNone, {s.y.as<float>(), s.rows, s.outputs}, s.team);
}

double LinearBenchmark::operations() const {
  return 2.0 * double(state_->rows * state_->outputs * state_->inputs);
}

double visible_pairs(const Look& look, size_t heads, size_t n) {
  const bool heads_differ = look.kind == Look::Kind::kBigBird || look.kind == Look::Kind::kAdaptiveSpan;
  if (look.kind == Look::Kind::kFull) return double(heads) * double(n) * double(n);
  std::vector<uint32_t> bits((n + 31) / 32);
  double pairs = 0;
  for (size_t h = 0; h < (heads_differ ? heads : 1); ++h) {
    Pattern pattern(look, h, 0, n, n);
    std::vector<int32_t> memory(Pattern::memory_size(look, n, n));
    pattern.prepare(0, n, memory.data());
    for (size_t i = 0; i < n; ++i) {
      pattern.row(i, 0, n, bits.data());
      for (uint32_t word : bits) pairs += std::popcount(word);
    }
  }
  return heads_differ ? pairs : pairs * double(heads);
}

}  // namespace bertie
