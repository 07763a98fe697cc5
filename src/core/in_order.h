#pragma once
// Work on a stream with several threads, as if with one: jobs are read in order, worked on side by side, and
// finished in order.
//
//   in_order<Job>(threads, [&](Job& job) { return read(job); },     // one thread at a time; false: the end
//                          [&](Job& job) { work(job); },            // all at once
//                          [&](Job& job) { write(job); });          // one at a time, in the order of reading
//
// There are as many Jobs as threads, used again and again, so memory does not grow with the stream. What any
// of the three throws stops all and comes out here; of several, the first in the stream's order that was met.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace bertie {

template <class Job, class Read, class Work, class Finish>
void in_order(int threads, const Read& read, const Work& work, const Finish& finish) {
  std::mutex reading, turns;
  std::condition_variable turn_changed;
  uint64_t next = 0, turn = 0;  // guarded by reading, turns
  bool ended = false;           // guarded by reading
  bool failed = false;          // guarded by turns
  std::exception_ptr error;     // guarded by turns

  const auto run = [&] {
    Job job;
    while (true) {
      uint64_t mine;
      std::exception_ptr thrown;
      {
        std::lock_guard lock(reading);
        if (ended) return;
        mine = next++;
        try {
          ended = !read(job);
          if (ended) return;
        } catch (...) {
          ended = true;
          thrown = std::current_exception();
        }
      }
      if (!thrown) {
        try {
          work(job);
        } catch (...) {
          thrown = std::current_exception();
        }
      }
      std::unique_lock lock(turns);
      turn_changed.wait(lock, [&] { return failed || turn == mine; });
      if (failed) return;
      if (!thrown) {
        try {
          finish(job);
        } catch (...) {
          thrown = std::current_exception();
        }
      }
      if (thrown) {
        failed = true;
        error = thrown;
      }
      ++turn;
      lock.unlock();
      turn_changed.notify_all();
      if (thrown) {
        std::lock_guard stop(reading);
        ended = true;
        return;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int t = 1; t < threads; ++t) others.emplace_back(run);
    } catch (const std::system_error&) {
      // No more threads are to be had: those that are there do it.
    }
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace bertie
