#include "train/ranks/launch_advice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/system.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_in(const char* name) {
  const char* const value = std::getenv(name);
  if (!value) return {};
  int number = 0;
  std::from_chars(value, value + std::strlen(value), number);
  return number;
}

bool is_mpirun(const std::vector<std::string>& command) {
  const std::string name = command.empty() ? "" : fs::path(command[0]).filename().string();
  for (const char* known : {"mpirun", "mpiexec", "orterun", "mpirun.openmpi", "mpiexec.openmpi"})
    if (name == known) return true;
  return false;
}

}  // namespace

Launcher Launcher::find() {
  Launcher l;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (!l.ranks) l.ranks = number_in(name);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (l.rank == 0) l.rank = number_in(name).value_or(0);
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (l.ranks_here <= 1) l.ranks_here = std::max(1, number_in(name).value_or(1));
  if (!l.ranks && std::getenv("PMIX_RANK")) l.ranks = 0;
  l.open_mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  l.kill_timeout = number_in("OMPI_MCA_odls_base_sigkill_timeout").value_or(l.kill_timeout);
  const char* const control = std::getenv("OMPI_MCA_orte_forward_job_control");
  l.forwards_job_control = control && (*control == '1' || *control == 't' || *control == 'T');
  if (!l.several()) return l;
  // On other machines than mpirun's own the parent is one of its daemons.
  const pid_t parent = getppid();
  if (std::vector<std::string> command = command_of(parent); is_mpirun(command))
    l.process = parent, l.command = std::move(command);
  // Ranks are bound to cores, what starts them is not.
  if (const auto cores = processors_allowed_to(parent)) l.cores = *cores;
  return l;
}

std::string Launcher::kill_timeout_option() {
  return fmt::format("--mca odls_base_sigkill_timeout {}", kGoodKillTimeout);
}

std::vector<std::string> launch_advice(const Launcher& launcher, Collective& ranks, int cores) {
  std::vector<std::string> advice;
  if (ranks.size() == 1) return advice;
  std::array<double, 2> all = {double(cores), double(launcher.cores) / ranks.ranks_here()};
  ranks.sum(all);
  if (launcher.open_mpi && launcher.kill_timeout < Launcher::kGoodKillTimeout)
    advice.push_back(fmt::format(
        "after Ctrl-C mpirun kills the ranks within {} s, before a longer step can be saved; it waits with: "
        "mpirun {} …",
        2 * launcher.kill_timeout, Launcher::kill_timeout_option()));
  if (all[0] * 2 <= all[1])
    advice.push_back(fmt::format(
        "the {} ranks are bound to {:.0f} of {:.0f} cores; they get all with: mpirun --bind-to none "
        "… (or {:.0f} each with --map-by slot:PE={:.0f})",
        ranks.size(), all[0], all[1], all[1] / ranks.size(), all[1] / ranks.size()));
  return advice;
}

}  // namespace bertie
