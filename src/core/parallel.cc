#include "core/parallel.h"

#include <sched.h>

namespace bertie {

int available_threads() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace bertie
