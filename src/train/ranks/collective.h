#pragma once
// Ranks that work together: sums over all of them, in a fixed order, so that every rank has the same bits and
// a run gives the same ones again. Alone (one rank) everything is a no-op. Over MPI it is a module that is
// opened when mpirun started the program (docs/scaling.md), so that nobody else loads MPI.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace bertie {

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranks_here() const = 0;  // on this machine, this one too: they share its cores

  // Begins to add `part` up over all ranks, in place, and returns; every rank calls it for the same parts in
  // the same order. Between start_sum and finish_sums nobody touches what was given. Each number is that of
  // rank 0 plus that of rank 1 plus …, however the parts were cut.
  virtual void start_sum(std::span<float> part) = 0;
  virtual void finish_sums() = 0;
  // Small sums, at once: losses, counts.
  virtual void sum(std::span<double> numbers) = 0;
  // Whether any rank says yes.
  virtual bool any(bool mine) = 0;
  // Rank 0's bytes for all.
  virtual void broadcast(std::string& bytes) = 0;
  virtual void broadcast(std::span<float> numbers) = 0;
  virtual void barrier() = 0;
  // Stops all ranks at once, after this one has met an error that it has told.
  [[noreturn]] virtual void abort(int code) = 0;
};

// The ranks that mpirun started, or one alone. Error when mpirun started several and this is a build without
// MPI: each rank would train on its own. `tell`, if there, is told what to say when another rank has died,
// from a thread of its own, before all ranks are stopped.
//
// When an exception leaves the scope of a Collective of several ranks, the others are stopped by mpirun as
// soon as the program ends with a code other than 0.
using TellOfLoss = std::function<void(const std::string& what, const std::string& hint)>;
std::unique_ptr<Collective> join_ranks(const TellOfLoss& tell = {});

// Threads for a rank when nobody says: its share of the machine's cores, and no more than it may run on.
int threads_for_rank(const Collective& ranks);

}  // namespace bertie
