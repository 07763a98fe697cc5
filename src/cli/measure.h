#pragma once
// How benchmarks measure: beside the machine's own peak, in the same run.
//
// The machine may be shared, and then what a core can do changes from moment to moment. So the peak is
// measured right before and after each group of calls: `share` is the median of a group's rate over the peak
// around it. `best` is the fastest call, when nobody disturbed it.
#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "kernels/peak.h"

namespace bertie::cli {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Measured {
  double best, median, best_peak, share;  // seconds, seconds, operations a second, 1
  size_t runs;
};

struct Patience {
  double seconds;           // go on for as long
  size_t least_groups = 5;  // and until there are as many groups of calls
  // A call that takes longer than this is measured once: there is no time for more, and what a first call
  // does beside its work is little of it.
  double long_call = std::numeric_limits<double>::infinity();
};

template <class Work>
Measured measure(const Patience& patience, double operations, int threads, const Work& work) {
  constexpr double kPeakSeconds = 0.004, kGroupSeconds = 0.04;
  Team team(threads);
  const double first_peak = kernels::fma_peak(team, kPeakSeconds);
  const auto first = Clock::now();
  work();  // warm-up
  const double first_seconds = seconds_since(first);
  double before = kernels::fma_peak(team, kPeakSeconds), best_peak = before;
  if (first_seconds > patience.long_call)
    return {first_seconds, first_seconds, std::max(first_peak, before),
            operations / first_seconds / ((first_peak + before) / 2), 1};
  std::vector<double> times, shares;
  const auto begin = Clock::now();
  do {
    size_t calls = 0;
    const auto group = Clock::now();
    do {
      const auto start = Clock::now();
      work();
      times.push_back(seconds_since(start));
      ++calls;
    } while (seconds_since(group) < kGroupSeconds);
    const double rate = operations * double(calls) / seconds_since(group);
    const double after = kernels::fma_peak(team, kPeakSeconds);
    shares.push_back(rate / ((before + after) / 2));
    best_peak = std::max(best_peak, after);
    before = after;
  } while (seconds_since(begin) < patience.seconds || shares.size() < patience.least_groups);
  std::sort(times.begin(), times.end());
  std::sort(shares.begin(), shares.end());
  return {times.front(), times[times.size() / 2], best_peak, shares[shares.size() / 2], times.size()};
}

}  // namespace bertie::cli
