#include "serve/queue.h"

#include <algorithm>
#include <numeric>

#include "serve/request.h"

namespace bertie::serve {
namespace {

// What one request causes does not spoil the pass for the others.
void compute(const TextModel& model, std::span<const Job::Slice> pass, std::span<std::exception_ptr> errors) {
  try {
    pass[0].job->compute(model, pass);
  } catch (...) {
    if (pass.size() == 1)
      errors[0] = std::current_exception();
    else
      for (size_t p = 0; p < pass.size(); ++p) compute(model, pass.subspan(p, 1), errors.subspan(p, 1));
  }
}

}  // namespace

Queue::Queue(QueueLimits limits, int workers, OnPass on_pass)
    : limits_(limits), on_pass_(std::move(on_pass)) {
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  sweeper_ = std::thread([this] { sweep(); });
}

void Queue::stop() {
  std::vector<Job*> left;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    const auto stops = std::make_exception_ptr(RequestError(503, "the server stops"));
    for (Job* job : waiting_) finish(*job, job->tokens.size() - job->taken_, stops, left);
    waiting_.clear();
  }
  changed_.notify_all();
  stopped_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  for (Job* job : left) job->resume();
}

void Queue::add(Job& job) {
  job.total_ = std::accumulate(job.tokens.begin(), job.tokens.end(), size_t{0});
  job.arrived_ = Clock::now();
  {
    std::lock_guard lock(mutex_);
    if (stopping_) throw RequestError(503, "the server stops");
    if (waiting_.size() >= limits_.requests || waiting_tokens_ + job.total_ > limits_.tokens)
      throw RequestError(429, "too many requests wait already; try again in a moment");
    job.due_ = job.arrived_ + from_seconds(double(job.total_) * seconds_per_token_);
    waiting_tokens_ += job.total_;
    waiting_.push_back(&job);
  }
  changed_.notify_one();
}

Queue::Load Queue::load() const {
  std::lock_guard lock(mutex_);
  return {waiting_.size(), waiting_tokens_};
}

void Queue::finish(Job& job, size_t count, std::exception_ptr error, std::vector<Job*>& done) {
  if (error) job.error = error;
  job.done_ += count;
  if (job.done_ == job.tokens.size()) done.push_back(&job);
}

void Queue::give_up_late(std::vector<Job*>& given_up) {
  const auto now = Clock::now();
  for (Job* job : waiting_) {
    std::exception_ptr why = job->error;
    if (job->client && job->client->gone())
      why = std::make_exception_ptr(RequestError(499, "the client is gone"));
    else if (!why && job->taken_ == 0 && now - job->arrived_ > from_seconds(limits_.wait_seconds))
      why = std::make_exception_ptr(RequestError(503, "no time for this request: the server is busy"));
    if (!why) continue;
    const size_t left = job->tokens.size() - job->taken_;
    while (job->taken_ < job->tokens.size()) waiting_tokens_ -= job->tokens[job->taken_++];
    finish(*job, left, why, given_up);
  }
  std::erase_if(waiting_, [](const Job* job) { return job->taken_ == job->tokens.size(); });
}

void Queue::sweep() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_; })) {
    std::vector<Job*> given_up;
    give_up_late(given_up);
    lock.unlock();
    for (Job* job : given_up) job->resume();
    lock.lock();
  }
}

std::vector<Job::Slice> Queue::next(std::vector<Job*>& given_up) {
  give_up_late(given_up);
  if (waiting_.empty()) return {};
  const auto now = Clock::now();
  std::ranges::stable_sort(waiting_, {}, [](const Job* job) { return job->due_; });
  const Job& first = *waiting_.front();
  std::vector<Job::Slice> pass;
  size_t tokens = 0;
  for (Job* job : waiting_) {
    const bool alike =
        job == &first || (!job->kind.empty() && job->kind == first.kind && job->model == first.model);
    if (!alike) continue;
    Job::Slice slice{job, job->taken_, 0};
    while (job->taken_ < job->tokens.size() &&
           ((pass.empty() && slice.count == 0) || tokens + job->tokens[job->taken_] <= limits_.pass_tokens)) {
      tokens += job->tokens[job->taken_++];
      ++slice.count;
    }
    if (slice.count == 0) continue;
    if (slice.first == 0) job->start_ = now, job->timing.queue = to_seconds(now - job->arrived_);
    pass.push_back(slice);
  }
  waiting_tokens_ -= tokens;
  std::erase_if(waiting_, [](const Job* job) { return job->taken_ == job->tokens.size(); });
  if (on_pass_) on_pass_(pass.size(), tokens);
  return pass;
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty() && stopping_) return;
    std::vector<Job*> done;
    const std::vector<Job::Slice> pass = next(done);
    std::vector<std::exception_ptr> errors(pass.size());
    double took = 0;
    size_t tokens = 0;
    if (!pass.empty()) {
      const bool alone = busy_ == 0 && waiting_.empty();
      ++busy_;
      lock.unlock();
      const auto begin = Clock::now();
      compute(alone ? pass[0].job->model->all : pass[0].job->model->one, pass, errors);
      took = to_seconds(Clock::now() - begin);
      lock.lock();
      --busy_;
    }
    for (size_t p = 0; p < pass.size(); ++p) {
      const Job::Slice& slice = pass[p];
      for (size_t i = 0; i < slice.count; ++i) tokens += slice.job->tokens[slice.first + i];
      slice.job->timing.compute += took;
      finish(*slice.job, slice.count, errors[p], done);
    }
    if (tokens > 0) seconds_per_token_ += 0.1 * (took / double(tokens) - seconds_per_token_);
    lock.unlock();
    for (Job* job : done) job->resume();
    lock.lock();
  }
}

}  // namespace bertie::serve
