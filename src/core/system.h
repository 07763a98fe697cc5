#pragma once
// What only the operating system can say or do, and each in its own way. What Linux alone has is here, but for
// two questions about the processor, which stay with the kernels that ask (amx.cc, int8.cc), a timer of the MPI
// module, and glibc's program_invocation_name in cli/commands/training.cc. On other systems these functions do
// not know, or do nothing; the rest of Bertie needs POSIX.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bertie {

// Bytes of the second-level cache of a core: what the processor says (glibc asks it, so that containers
// without /sys are no worse off), or 512 KiB where it says nothing.
size_t l2_cache_bytes();

// Processors that a process may run on, by its affinity mask; 0 is this one. Nothing if it cannot be said.
std::optional<int> processors_allowed_to(int process);

// Processors that the control groups (cgroups, which containers are) of a process pay for, rounded up; 0: as
// many as there are. `groups` is what /proc/self/cgroup says, `mount` where their files are.
int processors_of_groups(const std::filesystem::path& groups, const std::filesystem::path& mount);

// The file of the running program; empty if it cannot be said.
std::filesystem::path program_path();

// How a process was started: its program and arguments; empty if it cannot be said.
std::vector<std::string> command_of(int process);

// See resident_peak() and count_resident_peak_anew() in bertie/bench.h.
std::optional<size_t> resident_peak_bytes();
bool count_resident_peak_bytes_anew();

// Pages of this memory may be large ones: fewer of them to look up.
void allow_large_pages(void* begin, size_t bytes);

// Two names for each other's folders, in one step. An errno, ENOSYS where there is no such step.
int exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace bertie
