#pragma once
// Requests wait here for the models, and share passes: inputs of one kind for one model go through it
// together, some 500 tokens at a time, whoever sent them: more would be no faster, and others would wait
// longer. A pass begins as soon as a worker is free; nobody waits for company.
//
// There is a worker for every core, of one thread each. A pass that has the machine to itself takes all cores
// instead. A large request is cut at its inputs, so that others come between; of two that wait, the one goes
// first that came first or is so much smaller that it would have been done by now.
//
//   std::vector<Embedding> v = co_await queue.pass<…>({.model = m, .kind = "embed", …}, inputs, tokens,
//   compute);
#include <condition_variable>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "serve/http.h"
#include "serve/served_model.h"

namespace bertie::serve {

struct QueueLimits {
  size_t requests = 1024;    // that wait
  size_t tokens = 2 << 20;   // of these
  size_t pass_tokens = 512;  // that go through a model together
  double wait_seconds = 30;  // after which a request that still waits is given up
};

// Where the time of a request went.
struct Timing {
  double queue = 0, compute = 0;  // seconds
};

// The inputs of one request that go through one model. Jobs with the same model and kind may share a pass; an
// empty kind shares with nobody.
class Job {
 public:
  virtual ~Job() = default;
  struct Slice {
    Job* job;
    size_t first, count;  // of its inputs
  };

  ModelPointer model;
  std::string kind;
  std::vector<size_t> tokens;              // of each input
  std::shared_ptr<const Exchange> client;  // gone: nothing is computed for it. May be null
  Timing timing;

  virtual void compute(const TextModel& model, std::span<const Slice> slices) = 0;  // of jobs of its kind
  virtual void resume() = 0;                                                        // all is done, or `error`
  std::exception_ptr error;

 private:
  friend class Queue;
  size_t total_ = 0;                   // tokens
  size_t taken_ = 0, done_ = 0;        // inputs
  Clock::time_point arrived_, start_;  // when it came, and when its first pass began
  Clock::time_point due_;              // when it would be done were the machine its own: who goes first
};

class Queue {
 public:
  struct Load {
    size_t requests = 0, tokens = 0;  // that wait
  };
  // Told of each pass.
  using OnPass = std::function<void(size_t jobs, size_t tokens)>;

  Queue(QueueLimits limits, int workers, OnPass on_pass = {});
  ~Queue() { stop(); }
  void stop();  // what waits is given up, and so is what still comes

  // Waits for its turn. RequestError (429) where too much waits already.
  void add(Job& job);
  Load load() const;

 private:
  void work();
  void sweep();  // gives up what waits too long, or for nobody, while all workers are busy
  void give_up_late(std::vector<Job*>& given_up);  // with the mutex held, as the next two
  // The next pass, best first; empty where there is none.
  std::vector<Job::Slice> next(std::vector<Job*>& given_up);
  void finish(Job& job, size_t count, std::exception_ptr error, std::vector<Job*>& done);

  const QueueLimits limits_;
  const OnPass on_pass_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, stopped_;
  std::vector<Job*> waiting_;  // with inputs that nobody has taken
  size_t waiting_tokens_ = 0, busy_ = 0;
  double seconds_per_token_ = 1e-4;  // of late
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  std::thread sweeper_;
};

// co_await it: inputs through a model, outputs in their order. `post` says where the waiting function goes
// on.
template <class Input, class Output>
class Pass final : public Job {
 public:
  using Compute = std::function<std::vector<Output>(const TextModel&, std::span<const Input>)>;

  Pass(Queue& queue, const std::function<void(std::function<void()>)>& post, std::vector<Input> inputs,
       Compute compute)
      : queue_(queue),
        post_(post),
        inputs_(std::move(inputs)),
        outputs_(inputs_.size()),
        compute_(std::move(compute)) {}

  bool await_ready() const { return inputs_.empty(); }
  void await_suspend(std::coroutine_handle<> waiting) {
    waiting_ = waiting;
    queue_.add(*this);
  }
  std::vector<Output> await_resume() {
    if (error) std::rethrow_exception(error);
    return std::move(outputs_);
  }

  void compute(const TextModel& text_model, std::span<const Slice> slices) override {
    std::vector<Input> all;
    for (const Slice& s : slices) {
      const auto first = of(s).inputs_.begin() + ptrdiff_t(s.first);
      all.insert(all.end(), first, first + ptrdiff_t(s.count));
    }
    std::vector<Output> results = compute_(text_model, all);
    if (results.size() != all.size()) throw std::logic_error("a result for each input");
    auto next = results.begin();
    for (const Slice& s : slices)
      for (size_t i = 0; i < s.count; ++i) of(s).outputs_[s.first + i] = std::move(*next++);
  }
  void resume() override {
    post_([waiting = waiting_] { waiting.resume(); });
  }

 private:
  static Pass& of(const Slice& slice) { return static_cast<Pass&>(*slice.job); }

  Queue& queue_;
  const std::function<void(std::function<void()>)>& post_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  Compute compute_;
  std::coroutine_handle<> waiting_;
};

}  // namespace bertie::serve
