#include "kernels/instruction_set.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <string_view>

namespace bertie::kernels {

const char* instruction_set() {
  const int64_t supported = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(supported);  // SupportedTargets had chosen among all that the processor has
  for (int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE4}, int64_t{HWY_NEON}})
    if (supported & target) return hwy::TargetName(target);
  return hwy::TargetName(HWY_STATIC_TARGET);
}

bool limit_instruction_set() {
  const char* const wanted = std::getenv("BERTIE_INSTRUCTIONS");
  if (!wanted) return false;
  // A target's bit is the smaller, the better the target.
  const auto better_than = [](int64_t target) { return target - 1; };
  const std::string_view name = wanted;
  const int64_t target = name == "avx2"     ? int64_t{HWY_AVX2}
                         : name == "sse4"   ? int64_t{HWY_SSE4}
                         : name == "scalar" ? int64_t{HWY_STATIC_TARGET}
                                            : 0;
  if (target == 0) return false;
  hwy::DisableTargets(better_than(target));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace bertie::kernels
