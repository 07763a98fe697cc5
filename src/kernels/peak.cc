#include "kernels/peak.h"

#include <chrono>

#include "kernels/int8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve independent chains keep two FMA units of latency 4 to 5 busy. Returns the operations done; `sink`
// keeps the compiler from removing them.
double fma_burst(size_t rounds, float& sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, sink);
  // All chains start differently, or the compiler would see that they are one.
  const auto start = [&](float x) HWY_ATTR { return hn::Set(d, sink + x); };
  auto c0 = start(0), c1 = start(1), c2 = start(2), c3 = start(3), c4 = start(4), c5 = start(5),
       c6 = start(6), c7 = start(7), c8 = start(8), c9 = start(9), c10 = start(10), c11 = start(11);
  for (size_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b), c1 = hn::MulAdd(c1, a, b), c2 = hn::MulAdd(c2, a, b),
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b), c5 = hn::MulAdd(c5, a, b), c6 = hn::MulAdd(c6, a, b),
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b), c9 = hn::MulAdd(c9, a, b), c10 = hn::MulAdd(c10, a, b),
    c11 = hn::MulAdd(c11, a, b);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(c4, c5)),
                           hn::Add(hn::Add(hn::Add(c6, c7), hn::Add(c8, c9)), hn::Add(c10, c11)));
  sink = hn::GetLane(hn::SumOfLanes(d, sum)) * 1e-6f;
  return double(rounds) * 12 * 2 * double(hn::Lanes(d));
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(fma_burst);

namespace {

// `burst` is a call that returns how many operations it did.
double peak_of(Team& team, double seconds, const auto& burst) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double operations = 0, elapsed = 0;
  do {
    std::atomic<double> done{0};
    team.parallel_for(size_t(team.threads()) * 8,
                      [&](size_t) { done.fetch_add(burst(), std::memory_order_relaxed); });
    operations += done;
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (elapsed < seconds);
  return operations / elapsed;
}

constexpr size_t kRounds = 20000;

}  // namespace

double fma_peak(Team& team, double seconds) {
  const auto burst = HWY_DYNAMIC_DISPATCH(fma_burst);
  return peak_of(team, seconds, [burst] {
    float sink = 0.001f;
    return burst(kRounds, sink);
  });
}

double int8_peak(Team& team, double seconds) {
  return peak_of(team, seconds, [] { return int8_burst(kRounds / 4); });
}

}  // namespace bertie::kernels
#endif
