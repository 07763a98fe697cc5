#include "core/system.h"

#include <fcntl.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/parallel.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// A number at the front of the text; below 0 where there is none ("max").
double number_at_front(std::string_view text) {
  long long number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return double(number);
}

// What a group and all above it pay for: the least of quota / period, in processors. 0: no limit.
template <class Limit>
double least_limit(fs::path group, const fs::path& root, const Limit& limit) {
  double least = 0;
  for (;; group = group.parent_path()) {
    const auto [quota, period] = limit(group);
    if (quota > 0 && period > 0) least = least > 0 ? std::min(least, quota / period) : quota / period;
    if (group == root || group == group.parent_path()) return least;
  }
}

}  // namespace

size_t l2_cache_bytes() {
  static const size_t bytes = [] {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long said = sysconf(_SC_LEVEL2_CACHE_SIZE);
    // Virtual machines make sizes up: beyond 2 MiB no core has so much to itself.
    if (said >= 64 << 10) return std::min(size_t(said), size_t{2} << 20);
#endif
    return size_t{512} << 10;
  }();
  return bytes;
}

std::optional<int> processors_allowed_to([[maybe_unused]] int process) {
#ifdef __linux__
  // The kernel's mask may be longer than cpu_set_t.
  for (int processors = 1024; processors <= 1 << 20; processors *= 4) {
    cpu_set_t* set = CPU_ALLOC(size_t(processors));
    if (!set) break;
    const size_t size = CPU_ALLOC_SIZE(size_t(processors));
    const int count = sched_getaffinity(process, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  return {};
}

int processors_of_groups(const fs::path& groups, const fs::path& mount) {
  double least = 0;
  const auto take = [&](double processors) {
    if (processors > 0) least = least > 0 ? std::min(least, processors) : processors;
  };
  std::ifstream in(groups);
  for (std::string line;
       std::getline(in, line);) {  // "0::/a/b" of version 2, "4:cpu,cpuacct:/a/b" of version 1
    const size_t kinds = line.find(':'), path = line.find(':', kinds + 1);
    if (kinds == line.npos || path == line.npos) continue;
    std::string controllers(",");
    controllers.append(line, kinds + 1, path - kinds - 1).append(",");
    const std::string below = line.substr(std::min(line.size(), path + 2));
    if (controllers == ",,") {
      take(least_limit(mount / below, mount, [](const fs::path& group) {
        const std::string max = first_line(group / "cpu.max");  // "150000 100000", or "max 100000"
        const size_t space = max.find(' ');
        return std::pair(number_at_front(max),
                         space == max.npos ? 0 : number_at_front(max.substr(space + 1)));
      }));
    } else if (controllers.find(",cpu,") != controllers.npos) {
      for (const char* name : {"cpu", "cpu,cpuacct"})
        if (const fs::path root = mount / name; fs::exists(root))
          take(least_limit(root / below, root, [](const fs::path& group) {
            return std::pair(number_at_front(first_line(group / "cpu.cfs_quota_us")),
                             number_at_front(first_line(group / "cpu.cfs_period_us")));
          }));
    }
  }
  return int(std::ceil(std::min(least, 1e6)));
}

int available_threads() {
  static const int paid = processors_of_groups("/proc/self/cgroup", "/sys/fs/cgroup");
  const int allowed =
      processors_allowed_to(0).value_or(std::max(1, int(std::thread::hardware_concurrency())));
  return paid > 0 ? std::min(allowed, paid) : allowed;
}

fs::path program_path() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

std::vector<std::string> command_of(int process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words;
  for (size_t at = 0; at < all.size(); at += words.back().size() + 1) words.emplace_back(all.c_str() + at);
  return words;
}

std::optional<size_t> resident_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (size_t kib = 0; std::sscanf(line.c_str(), "VmHWM: %zu kB", &kib) == 1) return kib * 1024;
  return {};
}

bool count_resident_peak_bytes_anew() {
  std::ofstream reset("/proc/self/clear_refs");
  return bool(reset << "5" << std::flush);
}

void allow_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
  madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

int exchange_names([[maybe_unused]] const fs::path& a, [[maybe_unused]] const fs::path& b) {
#ifdef __linux__
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

}  // namespace bertie
