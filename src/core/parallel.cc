#include "core/parallel.h"

#include <sched.h>

#include <new>
#include <string>
#include <system_error>

#include "bertie/error.h"

namespace bertie {
namespace {

constexpr int kChunkBits = 20;
constexpr uint64_t kChunkMask = (uint64_t{1} << kChunkBits) - 1;
constexpr int kSpins = 2000;  // of spin_pause(), some 10-50 ns each

// Waits a moment, and leaves the core to its other thread.
void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" takes no time on most
#endif
}

uint64_t begin_of(uint64_t left) { return left & kChunkMask; }
uint64_t end_of(uint64_t left) { return left >> kChunkBits & kChunkMask; }
uint64_t count_of(uint64_t left) { return end_of(left) - begin_of(left); }

}  // namespace

Team::Team(int threads) : shares_(threads > 1 ? size_t(threads) : 0) {
  try {
    workers_.reserve(shares_.size());
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(size_t(t)); });
  } catch (const std::bad_alloc&) {
    stop();
    throw;
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
  const size_t n = shares_.size();  // rounded up: of fewer chunks than threads the first is the caller's
  for (size_t i = 0; i < n; ++i) {
    const uint64_t begin = (i * chunks + n - 1) / n, end = ((i + 1) * chunks + n - 1) / n;
    shares_[i].left.store(uint64_t{job} << 2 * kChunkBits | end << kChunkBits | begin,
                          std::memory_order_release);
  }
  job_.store(job);  // sequentially consistent, as is the worker's announcement that it goes to sleep
  if (sleeping_.load() > 0) job_.notify_all();
  take_chunks(0);
  for (int spins = 0; done_.load(std::memory_order_acquire) < chunks;)
    spins < kSpins ? (++spins, spin_pause()) : void(sched_yield());
}

// Takes the first chunk of a thread's own share, or the last of another's; false if there is none.
bool Team::take(size_t share, bool its_own, size_t& chunk) {
  std::atomic<uint64_t>& word = shares_[share].left;
  uint64_t left = word.load(std::memory_order_acquire);
  while (count_of(left) > 0) {
    const uint64_t after = its_own ? left + 1 : left - (uint64_t{1} << kChunkBits);
    if (!word.compare_exchange_weak(left, after, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    chunk = its_own ? begin_of(left) : end_of(left) - 1;
    return true;
  }
  return false;
}

// Who has most left; false if nobody has anything.
bool Team::find_share(size_t& share) const {
  uint64_t most = 0;
  for (size_t i = 0; i < shares_.size(); ++i) {
    const uint64_t count = count_of(shares_[i].left.load(std::memory_order_relaxed));
    if (count > most) most = count, share = i;
  }
  return most > 0;
}

// Works on what is left of the current job.
void Team::take_chunks(size_t worker) {
  size_t taken = 0, chunk = 0;
  const auto compute = [&] {
    call_.load(std::memory_order_relaxed)(body_.load(std::memory_order_relaxed), chunk, worker);
    ++taken;
  };
  while (take(worker, true, chunk)) compute();
  for (size_t from = 0; find_share(from);)  // to the last of one's, for looking at all takes time
    while (take(from, from == worker, chunk)) compute();
  if (taken > 0) done_.fetch_add(taken, std::memory_order_release);
}

void Team::work(size_t worker) {
  int idle = 0;
  uint32_t seen = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint32_t job = job_.load();
    if (job != seen) {  // all shares of a job are there before its number
      seen = job, idle = 0;
      take_chunks(worker);
      continue;
    }
    if (++idle < kSpins) {
      spin_pause();
      continue;
    }
    sleeping_.fetch_add(1);
    if (job_.load() == job && !stop_) job_.wait(job);
    sleeping_.fetch_sub(1);
    idle = 0;
  }
}

}  // namespace bertie
