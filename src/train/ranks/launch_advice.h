#pragma once
// What started this process as one of several ranks, as far as its environment tells: Open MPI's mpirun, or
// another one. All that Bertie knows about mpirun's ways is here.
//
// Ctrl-C ends mpirun, not the ranks. Open MPI 4's then sends them SIGCONT, waits odls_base_sigkill_timeout
// seconds (1, where nobody says), sends SIGTERM, waits as long again, and sends SIGKILL. So SIGCONT is the
// first that a rank hears, and the two waits are the time it has to save. SIGUSR1 is passed on as it is, with
// no end to the time.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "train/ranks/collective.h"

namespace bertie {

struct Launcher {
  std::optional<int> ranks = {};  // that were started; 0: it does not say; nothing: nobody started ranks
  bool open_mpi = false;
  bool passes_job_control = false;  // SIGCONT is no more than "go on"
  int patience = 1;                 // odls_base_sigkill_timeout
  // mpirun's own process and command, where it runs on this machine.
  pid_t process = 0;
  std::vector<std::string> command = {};
  int cores = 0;  // that ranks on this machine may have in all

  static Launcher find();
  bool several() const { return ranks && *ranks != 1; }
};

inline constexpr int kGoodPatience = 30;  // seconds; mpirun waits for twice as long, whatever the ranks do

// "--mca odls_base_sigkill_timeout 30"
std::string patience_option();

// What rank 0 should say at the start: how to stop the run, and what is missing among mpirun's options.
// Every rank calls it. `cores` are those that this rank may run on.
std::vector<std::string> launch_advice(const Launcher& launcher, Collective& ranks, int cores);

}  // namespace bertie
