// Ranks over MPI. One thread of each rank makes all MPI calls (so any MPI will do, and the thread that
// computes never waits for a send): it takes parts from a queue and sums them while the backward pass runs.
//
// A part of n floats on N ranks: rank r owns the r-th of N slices. Every rank sends each owner its slice; the
// owner adds what it received in the order of ranks, its own included, and sends the sum to all. So a rank
// sends and receives 2·(N − 1)/N·n floats, the least there is, in 2·(N − 1) messages, and every number is
// ((r₀ + r₁) + r₂) + … whatever the parts and the network did: the same bits on all ranks, each time.
// docs/scaling.md has what this costs.
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bertie/error.h"
#include "train/ranks/mpi/module.h"

namespace bertie {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kInFlight = 4;                 // parts whose messages are on their way at once
constexpr size_t kLeastSlice = 16 << 10;        // floats: below it a message's latency outweighs its length
constexpr size_t kMostPart = size_t{4} << 20;   // floats: what is longer goes in pieces, one behind the other
constexpr size_t kMostBytes = size_t{1} << 30;  // of one message; MPI counts with int
constexpr auto kCheckInterval = 100ms;          // between checks that the other ranks here are alive

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(fmt::format("MPI: {} failed: {}", what, std::string_view(text, size_t(length))),
              "see mpirun's messages; `resume` continues from the last checkpoint");
}

class MpiRanks final : public Collective {
 public:
  explicit MpiRanks(const OnDeath& on_death) : on_death_(on_death), exceptions_(std::uncaught_exceptions()) {
    thread_ = std::thread([this] { work(); });
    try {
      on_thread([this] { start(); });
    } catch (...) {
      end(false);
      throw;
    }
  }

  // MPI_Finalize waits for all ranks. A rank that leaves because of an error must not: mpirun sees it end,
  // and stops the others.
  ~MpiRanks() override { end(std::uncaught_exceptions() == exceptions_ && !failed()); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_here() const override { return int(local_ranks_.size()) + 1; }

  // Parts that touch are put together until a slice is long enough. Which are, depends on the parts alone,
  // so that all ranks do the same.
  void start_sum(std::span<float> part) override {
    if (part.empty()) return;
    const std::span<float> joined = part.data() + part.size() == unsent_.data()
                                        ? std::span(part.data(), part.size() + unsent_.size())
                                    : unsent_.data() + unsent_.size() == part.data()
                                        ? std::span(unsent_.data(), part.size() + unsent_.size())
                                        : std::span<float>();
    if (joined.empty() || unsent_.empty()) {
      send_unsent();
      unsent_ = part;
    } else {
      unsent_ = joined;
    }
    if (unsent_.size() >= kLeastSlice * size_t(size_)) send_unsent();
  }

  void finish_sums() override {
    send_unsent();
    std::unique_lock lock(mutex_);
    wait(lock);
  }

  void sum(std::span<double> numbers) override {
    on_thread([&] {
      const size_t n = numbers.size();
      all_numbers_.resize(n * size_t(size_));
      MPI_Request request;
      check(MPI_Iallgather(numbers.data(), int(n), MPI_DOUBLE, all_numbers_.data(), int(n), MPI_DOUBLE,
                           MPI_COMM_WORLD, &request),
            "a sum of numbers");
      finish({&request, 1});
      for (size_t i = 0; i < n; ++i) {
        numbers[i] = all_numbers_[i];
        for (size_t r = 1; r < size_t(size_); ++r) numbers[i] += all_numbers_[r * n + i];
      }
    });
  }

  void broadcast(std::string& bytes) override {
    uint64_t length = bytes.size();
    on_thread([&] {
      broadcast(&length, sizeof length);
      bytes.resize(length);
      broadcast(bytes.data(), length);
    });
  }

  void broadcast(std::span<float> numbers) override {
    on_thread([&] { broadcast(numbers.data(), numbers.size_bytes()); });
  }

  void barrier() override {
    on_thread([&] { barrier_here(); });
  }

  void abort(int code) override {
    abort_code_ = code;
    wake_.notify_one();
    std::this_thread::sleep_for(10s);  // MPI_Abort ends the program before
    std::_Exit(code);
  }

 private:
  // A part that is being added up.
  struct Part {
    std::span<float> numbers;
    uint32_t serial = 0;
    enum class State { kFree, kScattering, kGathering } state = State::kFree;
    std::vector<float> received;  // my slice of every other rank
    std::vector<MPI_Request> requests;
  };
  struct LocalRank {
    int rank;
    pid_t process;
  };

  // ---- the thread that computes

  void send_unsent() {
    if (unsent_.empty()) return;
    const size_t most = std::max(kMostPart, kLeastSlice * size_t(size_));
    {
      const std::lock_guard lock(mutex_);
      for (size_t first = 0; first < unsent_.size(); first += most, ++outstanding_)
        queue_.push_back(unsent_.subspan(first, std::min(most, unsent_.size() - first)));
    }
    wake_.notify_one();
    unsent_ = {};
  }

  // Until everything asked for is done; then throws what went wrong.
  void wait(std::unique_lock<std::mutex>& lock) {
    awaited_ = true;
    done_.wait(lock, [this] { return outstanding_ == 0 || failure_; });
    awaited_ = false;
    if (failure_) std::rethrow_exception(failure_);
  }

  // Runs f on the MPI thread, after all sums that were started.
  template <class F>
  void on_thread(const F& f) {
    send_unsent();
    std::unique_lock lock(mutex_);
    wait(lock);
    job_ = [](const void* call) { (*static_cast<const F*>(call))(); };
    argument_ = &f;
    ++outstanding_;
    wake_.notify_one();
    wait(lock);
  }

  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }

  void end(bool well) {
    if (well) {
      try {
        on_thread([this] {
          leaving_ = true;
          barrier_here();
          MPI_Finalize();
        });
      } catch (...) {  // there is no other rank left
      }
    }
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  // ---- the thread that makes MPI calls

  void work() {
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: short sleeps are short
#endif
    try {
      while (serve()) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      done_.notify_all();
    }
    // After a failure the others may still have to be stopped.
    std::unique_lock lock(mutex_);
    while (!stop_ && abort_code_ < 0) wake_.wait_for(lock, kCheckInterval);
    if (abort_code_ >= 0) MPI_Abort(MPI_COMM_WORLD, abort_code_);
  }

  // Starts what was asked for and continues what is in flight; false at the end.
  bool serve() {
    void (*job)(const void*) = nullptr;
    std::array<std::span<float>, kInFlight> next;
    size_t taken = 0;
    {
      std::unique_lock lock(mutex_);
      while (queue_begin_ == queue_.size() && active_ == 0 && !job_) {
        if (stop_) return false;
        lock.unlock();
        watch();
        lock.lock();
        if (queue_begin_ == queue_.size() && !job_ && !stop_) wake_.wait_for(lock, kCheckInterval);
      }
      if (stop_) return false;  // the parts on their way belong to a rank that leaves
      while (queue_begin_ < queue_.size() && active_ + taken < kInFlight)
        next[taken++] = queue_[queue_begin_++];
      if (queue_begin_ == queue_.size()) queue_.clear(), queue_begin_ = 0;
      if (job_ && active_ + taken == 0) job = std::exchange(job_, nullptr);
    }
    for (size_t i = 0; i < taken; ++i) begin(next[i]);
    size_t ended = 0;
    if (job) job(argument_), ++ended;
    bool moved = false;
    for (Part& part : parts_) {
      if (part.state == Part::State::kFree || !arrived(part)) continue;
      moved = true;
      if (part.state == Part::State::kScattering) {
        add_up(part);
        gather(part);
      } else {
        part.state = Part::State::kFree;
        --active_;
        ++ended;
      }
    }
    if (ended) {
      const std::lock_guard lock(mutex_);
      outstanding_ -= ended;
      if (outstanding_ == 0) done_.notify_all();
    } else if (!moved) {
      pause();
    }
    return true;
  }

  // Between two polls of the network. While the computing thread waits, this one keeps its core; else it
  // leaves the cores to the computation.
  void pause() {
    watch();
    if (awaited_)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(20us);
  }

  // Ends all ranks where that was asked for, or where a rank on this machine has died.
  void watch() {
    if (abort_code_ >= 0) MPI_Abort(MPI_COMM_WORLD, abort_code_);
    if (leaving_ || Clock::now() < next_check_) return;
    next_check_ = Clock::now() + kCheckInterval;
    const auto dead = [](const LocalRank& n) { return kill(n.process, 0) != 0 && errno == ESRCH; };
    const auto lost = std::find_if(local_ranks_.begin(), local_ranks_.end(), dead);
    if (lost == local_ranks_.end()) return;
    // The lowest rank that is left reports it and ends all, if it does so in time.
    for (const LocalRank& other : local_ranks_)
      if (other.rank < rank_ && !dead(other)) std::this_thread::sleep_for(5s);
    if (on_death_)
      on_death_(Error(
          fmt::format("rank {} (process {}) has died; all {} ranks stop", lost->rank, lost->process, size_),
          "`resume` continues from the last checkpoint"));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  void start() {
    int got = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &got), "starting");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "starting");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "starting");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "starting");
    if (got < MPI_THREAD_FUNNELED)
      throw Error("this MPI does not support calls from one thread of several", "Debian's Open MPI does");
    for (Part& part : parts_) part.requests.resize(2 * size_t(size_ - 1));

    struct Card {
      std::array<char, 248> machine;
      int64_t process;
    };
    Card mine{};
    gethostname(mine.machine.data(), mine.machine.size() - 1);
    mine.process = getpid();
    std::vector<Card> cards(static_cast<size_t>(size_));
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD),
          "finding the other ranks");
    for (int r = 0; r < size_; ++r) {
      const Card& card = cards[size_t(r)];
      if (r != rank_ && card.machine == mine.machine) local_ranks_.push_back({r, pid_t(card.process)});
    }
  }

  // Waits for all of these requests, and checks the other ranks meanwhile.
  void finish(std::span<MPI_Request> requests) {
    for (int done = 0;;) {
      check(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "waiting");
      if (done) return;
      pause();
    }
  }

  void barrier_here() {
    MPI_Request request;
    check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "a barrier");
    finish({&request, 1});
  }

  void broadcast(void* bytes, size_t count) {
    for (size_t first = 0; first < count; first += kMostBytes) {
      MPI_Request request;
      check(MPI_Ibcast(static_cast<char*>(bytes) + first, int(std::min(kMostBytes, count - first)), MPI_BYTE,
                       0, MPI_COMM_WORLD, &request),
            "a broadcast");
      finish({&request, 1});
    }
  }

  std::span<float> slice(std::span<float> numbers, int r) const {
    const size_t n = numbers.size(), first = n * size_t(r) / size_t(size_);
    return numbers.subspan(first, n * size_t(r + 1) / size_t(size_) - first);
  }

  // A message to and one from every other rank, each starting with the one after it so that not all talk to
  // rank 0 first.
  template <class From, class To>
  void exchange(Part& part, const From& from, const To& to) {
    const int tag = int(part.serial % 8192) * 2 + (part.state == Part::State::kGathering);
    size_t i = 0;
    for (int step = 1; step < size_; ++step) {
      const int left = (rank_ + size_ - step) % size_, right = (rank_ + step) % size_;
      const std::span<float> in = to(left), out = from(right);
      check(MPI_Irecv(in.data(), int(in.size()), MPI_FLOAT, left, tag, MPI_COMM_WORLD, &part.requests[i++]),
            "receiving");
      check(
          MPI_Isend(out.data(), int(out.size()), MPI_FLOAT, right, tag, MPI_COMM_WORLD, &part.requests[i++]),
          "sending");
    }
  }

  bool arrived(Part& part) {
    int done = 0;
    check(MPI_Testall(int(part.requests.size()), part.requests.data(), &done, MPI_STATUSES_IGNORE),
          "adding gradients up");
    return done;
  }

  void begin(std::span<float> numbers) {
    Part& part =
        *std::find_if(parts_.begin(), parts_.end(), [](Part& p) { return p.state == Part::State::kFree; });
    ++active_;
    part.numbers = numbers;
    part.serial = serial_++;
    part.state = Part::State::kScattering;
    const size_t mine = slice(numbers, rank_).size();
    if (part.received.size() < mine * size_t(size_)) part.received.resize(mine * size_t(size_));
    exchange(
        part, [&](int r) { return slice(numbers, r); },
        [&](int r) { return std::span(part.received).subspan(size_t(r) * mine, mine); });
  }

  // In the order of ranks, block by block so that sums stay in the cache.
  void add_up(Part& part) {
    const std::span<float> mine = slice(part.numbers, rank_);
    std::array<float, 2048> sums;
    for (size_t first = 0; first < mine.size(); first += sums.size()) {
      const size_t n = std::min(sums.size(), mine.size() - first);
      for (int r = 0; r < size_; ++r) {
        const float* from =
            (r == rank_ ? mine.data() : part.received.data() + size_t(r) * mine.size()) + first;
        if (r == 0)
          std::copy_n(from, n, sums.data());
        else
          for (size_t i = 0; i < n; ++i) sums[i] += from[i];
      }
      std::copy_n(sums.data(), n, mine.data() + first);
    }
  }

  void gather(Part& part) {
    part.state = Part::State::kGathering;
    exchange(
        part, [&](int) { return slice(part.numbers, rank_); }, [&](int r) { return slice(part.numbers, r); });
  }

  const OnDeath on_death_;
  const int exceptions_;
  int rank_ = 0, size_ = 1;
  std::vector<LocalRank> local_ranks_;
  std::span<float> unsent_;  // parts not sent off yet

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  // Under the mutex:
  std::vector<std::span<float>> queue_;  // from queue_begin_ on
  size_t queue_begin_ = 0, outstanding_ = 0;
  void (*job_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::exception_ptr failure_;
  bool stop_ = false;

  std::atomic<bool> awaited_{false};
  std::atomic<int> abort_code_{-1};
  // The thread's own:
  std::array<Part, kInFlight> parts_;
  size_t active_ = 0;
  uint32_t serial_ = 0;
  std::vector<double> all_numbers_;
  Clock::time_point next_check_{};
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace
}  // namespace bertie

extern "C" BERTIE_API bertie::Collective* bertie_mpi_join(const char* version,
                                                          const bertie::OnDeath& on_death) {
  return std::strcmp(version, BERTIE_VERSION) == 0 ? new bertie::MpiRanks(on_death) : nullptr;
}
