#pragma once
#include "bertie/attention.h"
#include "core/arena.h"
#include "core/parallel.h"

namespace bertie {

struct Workspace::Parts {
  explicit Parts(int threads) : team(threads) {}
  Team team;
  Arena arena;  // each call takes what it needs in one piece
  Arena outer;  // the same for a call that makes other calls
};

}  // namespace bertie
