#pragma once
// Runs programs under mpirun, where it is and the module was built.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/program.h"

namespace bertie::test {

inline const std::string kBuild = BERTIE_BINARY_DIR;

#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;  // knows nothing of what Open MPI's own threads agree on
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline bool can_run_mpi() {
  return !kThreadSanitizer && run_shell("command -v mpirun").code == 0 &&
         fs::exists(kBuild + "/bertie_mpi.so");
}

#define BERTIE_NEEDS_MPI()                             \
  if (!bertie::test::can_run_mpi())                    \
  GTEST_SKIP() << "mpirun or " << bertie::test::kBuild \
               << "/bertie_mpi.so is not here, or this is ThreadSanitizer"

inline Result mpirun(int ranks, const std::string& program, const std::string& what) {
  // Leaks are Open MPI's own.
  return run_shell(fmt::format(
      "ASAN_OPTIONS=detect_leaks=0 timeout -k 1 300 mpirun --allow-run-as-root --oversubscribe -np {} "
      "'{}' {}",
      ranks, program, what));
}

}  // namespace bertie::test
