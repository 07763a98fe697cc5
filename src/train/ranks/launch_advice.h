#pragma once
// What rank 0 should say at the start about how mpirun was called (bertie/launcher.h).
#include <string>
#include <vector>

#include "bertie/launcher.h"
#include "train/ranks/collective.h"

namespace bertie {

// Which of mpirun's options are missing for a run that uses all cores and can be stopped well. Every rank
// calls it. `cores` are those that this rank uses.
std::vector<std::string> launch_advice(const Launcher& launcher, Collective& ranks, int cores);

}  // namespace bertie
