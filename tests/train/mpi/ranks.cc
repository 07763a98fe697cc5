// One rank of tests/train/mpi_test.cc: `mpirun -np N mpi_ranks WHAT`. Ends with 0 if all is as it must be.
// `mpirun -np N mpi_ranks time` measures.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bertie/error.h"
#include "core/random.h"
#include "train/ranks/collective.h"

namespace bertie {
namespace {

void expect(bool holds, const std::string& what) {
  if (!holds) throw Error(fmt::format("this does not hold: {}", what));
}

// Numbers of very different sizes, so that another order of adding gives other bits.
float number(int rank, size_t i) {
  const auto bits = philox({uint32_t(i), uint32_t(rank), 7, 8}, {1, 2});
  return std::ldexp(float(bits[0]) * 0x1p-32f - 0.5f, int(bits[1] % 24));
}

std::vector<float> numbers_of(int rank, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = number(rank, i);
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

std::vector<float> rank_order_sum(int ranks, size_t count) {
  std::vector<float> sum = numbers_of(0, count);
  for (int r = 1; r < ranks; ++r)
    for (size_t i = 0; i < count; ++i) sum[i] += number(r, i);
  return sum;
}

// Parts of `sizes`, one after the other from the end to the front as a backward pass gives them, or from the
// front on, or with gaps.
void sums_in_parts(Collective& ranks, const std::vector<size_t>& sizes, const std::string& order) {
  size_t count = 0;
  for (size_t size : sizes) count += size + (order == "gaps");
  std::vector<float> x = numbers_of(ranks.rank(), count);
  std::vector<float> want = rank_order_sum(ranks.size(), count);
  size_t at = order == "back" ? count : 0;
  for (size_t size : sizes) {
    if (order == "back") at -= size;
    ranks.start_sum(std::span(x).subspan(at, size));
    if (order != "back") at += size;
    if (order == "gaps") want[at] = x[at], ++at;
  }
  ranks.finish_sums();
  expect(same_bits(x, want),
         fmt::format("{} parts, {} numbers, {}: the sum in the order of ranks", sizes.size(), count, order));
}

void sums(Collective& ranks) {
  bool order_matters = false;
  for (size_t i = 0; i < 1000 && ranks.size() > 2; ++i)
    order_matters |=
        number(0, i) + number(1, i) + number(2, i) != number(0, i) + (number(1, i) + number(2, i));
  expect(order_matters || ranks.size() < 3, "the test's numbers tell orders apart");

  ranks.finish_sums();  // nothing was started
  std::vector<size_t> many;
  for (size_t i = 0; i < 300; ++i) many.push_back(i * 977 % 5003);
  for (const char* order : {"back", "front", "gaps"})
    for (const auto& sizes : {std::vector<size_t>{1}, {0}, {2, 0, 3}, {7, 1, 100'001, 33, 65'536}, many})
      sums_in_parts(ranks, sizes, order);
  sums_in_parts(ranks, {4'500'001}, "back");  // longer than one piece
  for (int step = 0; step < 10; ++step) sums_in_parts(ranks, {1000, 70'001, 3}, "back");
}

void small(Collective& ranks) {
  const int n = ranks.size(), me = ranks.rank();
  std::vector<double> x{0.1 * (me + 1), double(me), 1e300};
  double tenths = 0.1;
  for (int r = 1; r < n; ++r) tenths += 0.1 * (r + 1);
  ranks.sum(x);
  expect(x[0] == tenths && x[1] == n * (n - 1) / 2 && x[2] == n * 1e300, "sums of doubles, in order");
  ranks.sum({});

  for (const std::string& text : {std::string("a\0b", 3), std::string(), std::string(100'000, 'x')}) {
    std::string mine = me == 0 ? text : fmt::format("rank {}", me);
    ranks.broadcast(mine);
    expect(mine == text, "rank 0's text");
  }
  std::vector<float> mine = numbers_of(me, 100'003);
  ranks.broadcast(mine);
  expect(same_bits(mine, numbers_of(0, mine.size())), "rank 0's numbers");
  ranks.broadcast(std::span<float>());
  for (int i = 0; i < 10; ++i) ranks.barrier();
  expect(ranks.ranks_here() == n, "all on this machine");
  expect(threads_for_rank(ranks) >= 1, "threads");

  // A small sum between large ones waits for those started before.
  std::vector<float> large = numbers_of(me, 300'000);
  ranks.start_sum(large);
  double one = 1;
  ranks.sum({&one, 1});
  expect(one == n, "a sum while another is on its way");
  expect(same_bits(large, rank_order_sum(n, large.size())), "what was started is done");
}

[[noreturn]] void wait_for_the_end() {
  std::this_thread::sleep_for(std::chrono::seconds(120));
  throw Error("nobody stopped this rank");
}

// Rank 1 dies as by a crash; the others wait for a sum, or compute.
void dies(Collective& ranks, bool waiting) {
  ranks.barrier();
  std::vector<float> x(1000);
  if (ranks.rank() == 1) raise(SIGKILL);
  if (waiting) {
    ranks.start_sum(x);
    ranks.finish_sums();
  }
  wait_for_the_end();
}

void throws(Collective& ranks) {
  if (ranks.rank() == 1) throw Error("the disk of rank 1 is full");
  ranks.barrier();
  wait_for_the_end();
}

void aborts(Collective& ranks) {
  std::vector<float> x(1000);
  ranks.start_sum(x);  // on its way, for rank 1 at least
  if (ranks.rank() == 1) ranks.abort(7);
  ranks.finish_sums();
  wait_for_the_end();
}

// What docs/scaling.md wants to know: the time of a sum, by its length.
void time(Collective& ranks) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> x(size_t{1} << 25, 1.0f);
  for (size_t count = 1; count <= x.size(); count *= 32) {
    double best = 1e9;
    for (int i = 0; i < 9; ++i) {
      ranks.barrier();
      const auto start = Clock::now();
      ranks.start_sum(std::span(x).first(count));
      ranks.finish_sums();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    if (ranks.rank() == 0)
      fmt::print("{:10} bytes {:10.1f} us {:8.2f} GB/s\n", count * 4, best * 1e6,
                 double(count) * 4e-9 / best);
  }
}

int run(const std::string& what) {
  signal(SIGTERM, SIG_IGN);  // as a training run, which wants to save first
  const auto say = [](const Error& error) {
    fmt::print(stderr, "mpi_ranks: {}\nhint: {}\n", error.what(), error.hint());
  };
  const std::map<std::string, std::function<void(Collective&)>> tests = {
      {"sums", sums},
      {"small", small},
      {"time", time},
      {"dies_while_others_wait", [](Collective& c) { dies(c, true); }},
      {"dies_while_others_compute", [](Collective& c) { dies(c, false); }},
      {"throws", throws},
      {"aborts", aborts}};
  try {
    const auto ranks = join_ranks(say);
    tests.at(what)(*ranks);
    if (ranks->rank() == 0) fmt::print("{} ranks: all well\n", ranks->size());
    return 0;
  } catch (const Error& error) {
    say(error);
    return 3;
  }
}

}  // namespace
}  // namespace bertie

int main(int argc, char** argv) { return bertie::run(argc > 1 ? argv[1] : "sums"); }
