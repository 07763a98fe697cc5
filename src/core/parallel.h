#pragma once
// parallel_for(chunks, threads, body): calls body(chunk) once for every chunk in 0..chunks-1.
//
// The chunks are fixed by the caller, never by the number of threads, and a chunk is computed by one
// thread: so a result does not depend on how many threads there were or which of them was late. Threads
// take the next chunk when they are free. body must not throw.
#include <atomic>
#include <cstddef>

namespace bertie {

template <class Body>
void parallel_for(size_t chunks, int threads, const Body& body) {
  if (threads <= 1 || chunks <= 1) {
    for (size_t c = 0; c < chunks; ++c) body(c);
    return;
  }
  std::atomic<size_t> next{0};
#pragma omp parallel num_threads(threads)
  for (size_t c; (c = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) body(c);
}

// How many threads to use when nobody says: the cores this process may run on.
int available_threads();

}  // namespace bertie
