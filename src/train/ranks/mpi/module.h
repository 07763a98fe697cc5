#pragma once
// What the module bertie_mpi.so offers: one function, of this name and type.
#include "train/ranks/collective.h"

namespace bertie {

inline constexpr const char* kMpiModule = "bertie_mpi.so";
inline constexpr const char* kMpiEntry = "bertie_mpi_join";

// The ranks of MPI_COMM_WORLD; the caller owns them. `version` is that of the program: another one has other
// classes, and gets null.
using MpiJoin = Collective* (*)(const char* version, const OnDeath& on_death);

}  // namespace bertie
