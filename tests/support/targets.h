#pragma once
// Runs a check once on every instruction set that this machine has and Bertie is built for.
#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace bertie::test {

template <class Body>
void on_every_target(const Body& body) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;  // sanitizer builds leave some out
  for (int64_t target :
       {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE4}, int64_t{HWY_STATIC_TARGET}}) {
    if ((all & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace bertie::test
