#include "core/parallel.h"

#include <immintrin.h>

#include <string>
#include <system_error>

#include "bertie/error.h"

namespace bertie {
namespace {

constexpr int kChunkBits = 20;
constexpr uint64_t kChunkMask = (uint64_t{1} << kChunkBits) - 1;
constexpr int kSpins = 2000;  // of _mm_pause, some 25-50 ns each

uint64_t next_of(uint64_t ticket) { return ticket & kChunkMask; }
uint64_t chunks_of(uint64_t ticket) { return ticket >> kChunkBits & kChunkMask; }

}  // namespace

Team::Team(int threads) {
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(size_t(t)); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size();
    stop();
    throw Error("could start only " + std::to_string(started + 1) + " of " + std::to_string(threads) +
                    " threads: " + error.what(),
                "ask for fewer threads");
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stop_ = true;
  job_.fetch_add(1);
  job_.notify_all();
  for (auto& worker : workers_) worker.join();
  workers_.clear();
}

void Team::run(size_t chunks, Call call, const void* body) {
  call_.store(call, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint32_t job = job_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t{job} << 2 * kChunkBits | uint64_t{chunks} << kChunkBits, std::memory_order_release);
  job_.store(job);  // sequentially consistent, as is the worker's announcement that it goes to sleep
  if (sleeping_.load() > 0) job_.notify_all();
  take_chunks(0);
  for (int spins = 0; done_.load(std::memory_order_acquire) < chunks; ++spins)
    spins < kSpins ? _mm_pause() : void(sched_yield());
}

// Works on what is left of the current job; false if nothing was.
bool Team::take_chunks(size_t worker) {
  bool any = false;
  for (;;) {
    const uint64_t seen = ticket_.load(std::memory_order_acquire);
    if (next_of(seen) >= chunks_of(seen)) return any;  // keeps the counter from running into the next field
    const uint64_t mine = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (next_of(mine) >= chunks_of(mine)) return any;
    call_.load(std::memory_order_relaxed)(body_.load(std::memory_order_relaxed), next_of(mine), worker);
    done_.fetch_add(1, std::memory_order_release);
    any = true;
  }
}

void Team::work(size_t worker) {
  int idle = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint32_t job = job_.load();
    if (take_chunks(worker)) idle = 0;
    if (++idle < kSpins) {
      _mm_pause();
      continue;
    }
    sleeping_.fetch_add(1);
    if (job_.load() == job && !stop_) job_.wait(job);
    sleeping_.fetch_sub(1);
    idle = 0;
  }
}

}  // namespace bertie
