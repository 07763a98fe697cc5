#pragma once
// What started this process as one of several ranks, as far as its environment tells: Open MPI's mpirun, or
// another one. For programs that work on several ranks and want to stop well (docs/scaling.md).
//
// Ctrl-C ends mpirun, not the ranks. Open MPI 4's mpirun then sends them SIGCONT, waits
// odls_base_sigkill_timeout seconds (1 by default), sends SIGTERM, waits as long again, and sends SIGKILL. So
// SIGCONT is the first signal that a rank gets, and the two waits are the time it has to save. SIGUSR1 is
// passed on as it is, without a time limit.
#include <optional>
#include <string>
#include <vector>

#include "bertie/export.h"

namespace bertie {

struct BERTIE_API Launcher {
  std::optional<int> ranks = {};  // how many were started; 0: it does not say; nothing: no ranks were started
  int rank = 0;                   // this process's
  bool open_mpi = false;
  bool forwards_job_control = false;  // SIGCONT then only means "continue"
  int kill_timeout = 1;               // odls_base_sigkill_timeout, in seconds
  // mpirun's own process and command line, where it runs on this machine.
  int process = 0;
  std::vector<std::string> command = {};
  int cores = 0;       // that the ranks on this machine may use together
  int ranks_here = 1;  // on this machine, as far as it is known

  static Launcher find();
  bool several() const { return ranks && *ranks != 1; }

  static constexpr int kGoodKillTimeout = 30;  // long enough to save
  static std::string kill_timeout_option();    // "--mca odls_base_sigkill_timeout 30"
};

}  // namespace bertie
