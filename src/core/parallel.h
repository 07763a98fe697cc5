#pragma once
// A team of threads for one run: team.parallel_for(chunks, body) calls body(chunk) once for every chunk in
// 0..chunks-1 and returns when all are done; body(chunk, worker) also learns which of the team it runs on,
// 0..threads-1, to find its own scratch memory.
//
// A chunk is computed by one thread, so a result does not depend on which of them was late; nor on how many
// there were, as long as the caller cuts no sum by their number. Each thread has a share of its own, chunks
// that follow each other, so that it finds in its cache what it wrote there in the operation before: where
// chunks are rows, the same rows. When it is done with them it takes from the ends of others' shares; a
// thread that the system wakes too late finds none left and is not waited for. body must not throw and must
// not call the same team.
//
// One caller at a time. Idle threads spin for some 50 µs, which spans the gaps within a forward pass, and
// then sleep.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace bertie {

class Team {
 public:
  explicit Team(int threads = 1);  // Error if the system has no more threads to give
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return int(workers_.size()) + 1; }

  template <class Body>
  void parallel_for(size_t chunks, const Body& body) {
    const auto call = [&body](size_t chunk, size_t worker) {
      if constexpr (std::is_invocable_v<Body, size_t, size_t>)
        body(chunk, worker);
      else
        body(chunk);
    };
    if (workers_.empty() || chunks <= 1) {
      for (size_t c = 0; c < chunks; ++c) call(c, 0);
      return;
    }
    for (size_t first = 0; first < chunks; first += kMaxChunks) {
      const auto shifted = [&](size_t chunk, size_t worker) { call(first + chunk, worker); };
      run(
          chunks - first < kMaxChunks ? chunks - first : kMaxChunks,
          [](const void* f, size_t chunk, size_t worker) {
            (*static_cast<decltype(shifted)*>(f))(chunk, worker);
          },
          &shifted);
    }
  }

 private:
  using Call = void (*)(const void* body, size_t chunk, size_t worker);
  static constexpr size_t kMaxChunks = (size_t{1} << 20) - 1;  // what a field of a share's word holds

  void run(size_t chunks, Call call, const void* body);
  void take_chunks(size_t worker);
  bool take(size_t share, bool its_own, size_t& chunk);
  bool find_share(size_t& share) const;
  void work(size_t worker);
  void stop();

  // What is left of a thread's share, in one word: job number | end | begin. A chunk between the two proves
  // that its job still runs and that call_ and body_ are its: who takes it changes the word, and run() does
  // not return before it is done.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };
  std::vector<Share> shares_;  // one for each thread
  alignas(64) std::atomic<size_t> done_{0};
  alignas(64) std::atomic<uint32_t> job_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> body_{nullptr};
  std::vector<std::thread> workers_;
};

// How many threads to use by default: the cores this process may run on.
int available_threads();

}  // namespace bertie
