#pragma once
// Pieces of work on several threads, as if on one: read in order, worked on side by side, finished in order.
//
//   side_by_side<Job>(threads, [&](Job& job) { return read(job); },   // one thread at a time; false: the end
//                              [&](Job& job) { work(job); },          // all at once
//                              [&](Job& job) { write(job); },         // one at a time, in the order of
//                              reading
//                              [&] { … });                            // whoever reads or works should give
//                              up
//
// No thread waits for another's piece: whoever has finished the oldest one also finishes those behind it that
// are ready, while the others go on. They are at most two pieces a thread ahead, so memory does not grow.
// What any of them throws comes out here, after everything before it has been finished, and ends the work.
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace bertie::cli {

template <class Job, class Read, class Work, class Finish, class GiveUp>
void side_by_side(int threads, const Read& read, const Work& work, const Finish& finish,
                  const GiveUp& give_up) {
  struct Piece {
    Job job = {};
    std::exception_ptr thrown = {};
  };
  const size_t most_ahead = 2 * size_t(threads);
  std::mutex reading, state;  // `state` guards what follows, and `next` is changed under both
  std::condition_variable finished;
  std::map<size_t, Piece> ready;
  size_t next = 0, turn = 0;  // the piece to be read, and the one to be finished
  bool ended = false, finishing = false;
  std::exception_ptr error;

  // False: there is nothing more to do.
  const auto take = [&](Piece& piece, size_t& number) {
    std::lock_guard one_reader(reading);
    {
      std::unique_lock lock(state);
      finished.wait(lock, [&] { return ended || next - turn < most_ahead; });
      if (ended) return false;
      number = next++;
    }
    try {
      if (read(piece.job)) return true;
    } catch (...) {
      piece.thrown = std::current_exception();
    }
    std::lock_guard lock(state);
    ended = true;
    return bool(piece.thrown);
  };
  const auto finish_all_ready = [&](std::unique_lock<std::mutex>& lock) {
    while (!error && !ready.empty() && ready.begin()->first == turn) {
      Piece piece = std::move(ready.extract(ready.begin()).mapped());
      lock.unlock();
      if (!piece.thrown) {
        try {
          finish(piece.job);
        } catch (...) {
          piece.thrown = std::current_exception();
        }
      }
      if (piece.thrown) give_up();
      lock.lock();
      if (piece.thrown) error = piece.thrown, ended = true;
      ++turn;
      finished.notify_all();
    }
  };
  const auto run = [&] {
    while (true) {
      Piece piece;
      size_t number = 0;
      if (!take(piece, number)) return;
      if (!piece.thrown) {
        try {
          work(piece.job);
        } catch (...) {
          piece.thrown = std::current_exception();
        }
      }
      std::unique_lock lock(state);
      ready.emplace(number, std::move(piece));
      if (finishing) continue;  // whoever finishes takes it along
      finishing = true;
      finish_all_ready(lock);
      finishing = false;
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

}  // namespace bertie::cli
