#pragma once
// How many processors this process may use: those of its affinity mask, but no more than its control groups
// (cgroups, which containers are) pay for. available_threads() (core/parallel.h) says it.
#include <filesystem>

namespace bertie {

// Processors that the control groups of a process pay for, rounded up; 0: as many as there are. `groups` is
// what /proc/self/cgroup says, `mount` where their files are.
int processors_of_groups(const std::filesystem::path& groups, const std::filesystem::path& mount);

}  // namespace bertie
