#pragma once
// For measuring: what this machine can do at most, and which share of it a piece of work gets.
//
//   const bertie::Speed speed = bertie::measure([&] { run.forward(batch); }, operations, threads);
//
// A machine may be shared, and then what a core can do changes from moment to moment. So the peak is measured
// right before and after each group of calls.
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "bertie/attention.h"
#include "bertie/export.h"

namespace bertie {

BERTIE_API int core_count();               // that this process may run on: the default number of threads
BERTIE_API const char* instruction_set();  // that the kernels use; "AVX3" is AVX-512

// The largest resident size of this process, in bytes, since it started or since count_resident_peak_anew(),
// which says whether it could. Nothing where the system does not say (src/core/system.h).
BERTIE_API std::optional<size_t> resident_peak();
BERTIE_API bool count_resident_peak_anew();

// What has passed since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// What a peak is of: fused multiply-adds in fp32, or products of 8-bit integers with their sums, on
// registers.
enum class Peak { kFloat32, kInt8 };
// Operations a second, over about `seconds`; a product and a sum are two.
BERTIE_API double peak_operations(Peak of, int threads, double seconds);

struct MeasureOptions {
  double seconds = 1;       // go on for as long
  size_t least_groups = 5;  // and until there are as many groups of calls
  // A call that takes longer than this is measured once: there is no time for more, and what a first call
  // does beside its work is little of it.
  double long_call = std::numeric_limits<double>::infinity();
  Peak peak = Peak::kFloat32;  // that the work is a share of
};

struct Speed {
  double best = 0, median = 0;  // seconds of a call; the best one is the least disturbed
  double p99 = 0;               // so many of a hundred calls took no longer
  double best_peak = 0;         // operations a second
  double share = 0;             // median of each group's rate over the peak around it
  size_t runs = 0;
};

// `operations` are those of one call.
BERTIE_API Speed measure(const std::function<void()>& work, double operations, int threads,
                         const MeasureOptions& options = {});

// A linear layer as models run it, with weights from beyond the L2 cache as in a real pass.
class BERTIE_API LinearBenchmark {
 public:
  LinearBenchmark(size_t rows, size_t outputs, size_t inputs, int threads);
  ~LinearBenchmark();
  LinearBenchmark(const LinearBenchmark&) = delete;
  LinearBenchmark& operator=(const LinearBenchmark&) = delete;

  void run();
  double operations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How many pairs of a query and a key that it sees there are in n tokens, over all heads.
BERTIE_API double visible_pairs(const Look& look, size_t heads, size_t n);

}  // namespace bertie
