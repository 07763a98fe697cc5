#pragma once
// A job on all ranks that were started: it joins them, says what is odd about how they were started, and
// where one of them throws, it reports that and ends them all.
#include <fmt/format.h>

#include "bertie/error.h"
#include "bertie/train.h"
#include "core/parallel.h"
#include "train/ranks/collective.h"
#include "train/ranks/launch_advice.h"

namespace bertie {

// job(ranks) on each rank. threads: of a rank; 0: one for every core.
auto on_ranks(int threads, const TrainEvents& events, const auto& job) {
  const auto failed = [&](const Error& error) {
    if (events.failed)
      events.failed(error);
    else if (events.warning)
      events.warning(error.what());
  };
  const std::unique_ptr<Collective> ranks = join_ranks(failed);
  const int cores = threads > 0 ? threads : available_threads();
  for (const std::string& advice : launch_advice(Launcher::find(), *ranks, cores))
    if (ranks->rank() == 0 && events.warning) events.warning(advice);
  try {
    return job(*ranks);
  } catch (const Error& error) {
    if (ranks->size() > 1) {  // the others wait for this one
      failed(Error(fmt::format("rank {}: {}", ranks->rank(), error.what()), error.hint(), error.field()));
      ranks->abort(1);
    }
    throw;
  } catch (const std::exception& error) {
    if (ranks->size() > 1) {
      failed(Error(fmt::format("rank {}: {}", ranks->rank(), error.what())));
      ranks->abort(1);
    }
    throw;
  }
}

}  // namespace bertie
