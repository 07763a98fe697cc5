#pragma once
// Ranks that train together: sums over all of them, in a fixed order, so that every rank has the same bits
// and a run gives the same ones again. With one rank everything is a no-op. The MPI implementation is a
// module that is opened only when mpirun started the program (docs/scaling.md), so that no other
// program loads MPI.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bertie/error.h"

namespace bertie {

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranks_here() const = 0;  // on this machine, including this one: they share its cores

  // Starts to sum `part` over all ranks, in place, and returns; every rank calls it for the same parts in the
  // same order, and does not touch them until finish_sums. Each number is that of rank 0 plus that of rank 1
  // plus …, however the parts were cut.
  virtual void start_sum(std::span<float> part) = 0;
  virtual void finish_sums() = 0;
  // Small sums, done on return: losses, counts.
  virtual void sum(std::span<double> numbers) = 0;
  // Rank 0's on all ranks.
  virtual void broadcast(std::string& bytes) = 0;
  virtual void broadcast(std::span<float> numbers) = 0;
  virtual void barrier() = 0;
  // Ends all ranks at once, after this one has reported an error.
  [[noreturn]] virtual void abort(int code) = 0;
};

// The ranks that mpirun started, or one alone. Error when mpirun started several and this build has no MPI:
// each rank would train on its own. `on_death`, if there, is called when another rank has died, from a thread
// of its own, before all ranks are stopped.
//
// When an exception leaves the scope of a Collective of several ranks, the others are stopped by mpirun as
// soon as the program ends with a code other than 0.
using OnDeath = std::function<void(const Error& error)>;
std::unique_ptr<Collective> join_ranks(const OnDeath& on_death = {});

// A rank's default number of threads: its share of the machine's cores, and no more than it may run on.
int threads_for_rank(const Collective& ranks);

}  // namespace bertie
