#pragma once
// Ranks that work together: sums over all of them, in a fixed order, so that every rank has the same bits and
// a run gives the same ones again. Alone (one rank) everything is a no-op. Over MPI it is a module that is
// opened when mpirun started the program (docs/scaling.md), so that nobody else loads MPI.
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace bertie {

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begins to add `part` up over all ranks, in place, and returns; every rank calls it for the same parts in
  // the same order. Between start_sum and finish_sums nobody touches what was given.
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

// The ranks that mpirun started, or one alone. Error when mpirun started this program and it was built
// without MPI: each rank would train on its own.
std::unique_ptr<Collective> join_ranks();

}  // namespace bertie
