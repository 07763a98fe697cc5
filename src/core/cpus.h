#pragma once
// How many processors this process may use: those of its affinity mask, but no more than its control groups
// (cgroups, which containers are) pay for. available_threads() (core/parallel.h) says it.
//
// And what the machine is: the caches that blocks of work should fit into.
#include <cstddef>
#include <filesystem>

namespace bertie {

// Bytes of the second-level cache of a core: what the processor says (glibc asks it, so that containers
// without /sys are no worse off), or 512 KiB where it says nothing.
size_t l2_cache_bytes();

// Processors that the control groups of a process pay for, rounded up; 0: as many as there are. `groups` is
// what /proc/self/cgroup says, `mount` where their files are.
int processors_of_groups(const std::filesystem::path& groups, const std::filesystem::path& mount);

}  // namespace bertie
