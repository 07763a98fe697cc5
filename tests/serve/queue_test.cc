#include "serve/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "serve/async.h"
#include "serve/request.h"
#include "serve/small_models.h"

namespace bertie::serve {
namespace {

class Somebody : public Exchange {
 public:
  HttpRequest& request() override { return request_; }
  void reply(HttpReply) override {}
  bool gone() const override { return gone_; }
  void leave() { gone_ = true; }

 private:
  HttpRequest request_;
  std::atomic<bool> gone_ = false;
};

// What computing was asked for, and when it may go on.
struct Bench {
  Bench(QueueLimits limits, int workers)
      : queue(limits, workers, [this](size_t jobs, size_t) { passes.push_back(jobs); }) {}

  const ModelPointer model = [] {
    const TextModel m = load(test::golden_task("sentence-similarity-bert"));
    return std::make_shared<const ServedModel>(
        ServedModel{.name = "m", .all = m.with_threads(2), .one = m.with_threads(1)});
  }();
  std::vector<size_t> passes;  // how many jobs shared each
  std::mutex mutex;
  std::vector<int> computed;  // inputs, in the order they were
  std::vector<int> threads;   // of each pass
  std::latch busy{1}, go{1};  // the first pass has begun; it may go on
  std::atomic<bool> is_first = true;
  const std::function<void(std::function<void()>)> post = [](std::function<void()> work) { work(); };
  Queue queue;

  // Twice each number; `state` is set to 1 when done, to the status where it was not.
  Async<int> run(std::vector<int> numbers, size_t tokens_each, std::string kind,
                 std::shared_ptr<const Exchange> client, std::vector<int>* out) {
    std::vector<size_t> tokens(numbers.size(), tokens_each);
    Pass<int, int> pass(queue, post, std::move(numbers),
                        [this](const TextModel& m, std::span<const int> all) {
                          if (is_first.exchange(false)) busy.count_down(), go.wait();
                          std::vector<int> twice;
                          std::lock_guard lock(mutex);
                          threads.push_back(m.threads());
                          for (int x : all) {
                            if (x < 0) throw RequestError(422, "a negative number");
                            computed.push_back(x), twice.push_back(2 * x);
                          }
                          return twice;
                        });
    pass.model = model, pass.kind = std::move(kind), pass.tokens = std::move(tokens),
    pass.client = std::move(client);
    *out = co_await pass;
    co_return 1;
  }
  // Where it stands: 0 waiting, 1 done, else the status.
  std::shared_ptr<std::atomic<int>> begin(std::vector<int> numbers, std::vector<int>* out, size_t tokens = 10,
                                          std::string kind = "twice",
                                          std::shared_ptr<const Exchange> client = {}) {
    auto state = std::make_shared<std::atomic<int>>(0);
    start(
        run(std::move(numbers), tokens, std::move(kind), std::move(client), out),
        [state](int done) { *state = done; },
        [state](std::exception_ptr error) {
          try {
            std::rethrow_exception(error);
          } catch (const RequestError& e) {
            *state = e.status;
          }
        });
    return state;
  }
};

int wait_for(const std::shared_ptr<std::atomic<int>>& state) {
  for (int i = 0; i < 2000 && *state == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return *state;
}

TEST(QueueOfRequests, OnesOfAKindShareAPass) {
  Bench bench({}, 1);
  std::vector<int> a, b, c, d;
  const auto begun = bench.begin({1}, &a);
  bench.busy.wait();
  const auto second = bench.begin({2, 3}, &b), third = bench.begin({4}, &c),
             other = bench.begin({5}, &d, 10, "other");
  bench.go.count_down();
  for (const auto& one : {begun, second, third, other}) EXPECT_EQ(wait_for(one), 1);
  EXPECT_EQ(a, std::vector<int>{2});
  EXPECT_EQ(b, (std::vector<int>{4, 6}));
  EXPECT_EQ(c, std::vector<int>{8});
  EXPECT_EQ(d, std::vector<int>{10});
  EXPECT_EQ(bench.passes, (std::vector<size_t>{1, 2, 1}));
  EXPECT_EQ(bench.threads, (std::vector<int>{2, 1, 2})) << "all cores where nobody else waits, else one";
}

TEST(QueueOfRequests, LargeOnesAreCutAndSmallOnesComeBetween) {
  Bench bench({.pass_tokens = 100}, 1);
  std::vector<int> a, large, small;
  bench.begin({0}, &a);
  bench.busy.wait();
  std::vector<int> many(1000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = int(i) + 10;
  const auto slow = bench.begin(many, &large, 50), quick = bench.begin({1}, &small, 1, "other");
  bench.go.count_down();
  EXPECT_EQ(wait_for(quick), 1);
  EXPECT_EQ(wait_for(slow), 1);
  ASSERT_EQ(large.size(), many.size());
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(large[i], 2 * many[i]);
  EXPECT_EQ(bench.computed[1], 1) << "what is done in a moment does not wait for what takes long";
  EXPECT_EQ(bench.passes.size(), 2 + many.size() / 2) << "two inputs of 50 tokens in 100";
}

TEST(QueueOfRequests, WhatOneCausesTheOthersDoNotFeel) {
  Bench bench({}, 1);
  std::vector<int> a, b, c;
  bench.begin({1}, &a);
  bench.busy.wait();
  const auto good = bench.begin({2}, &b), bad = bench.begin({-1}, &c);
  bench.go.count_down();
  EXPECT_EQ(wait_for(good), 1);
  EXPECT_EQ(wait_for(bad), 422);
  EXPECT_EQ(b, std::vector<int>{4});
}

TEST(QueueOfRequests, NothingIsComputedForWhoIsGone) {
  Bench bench({}, 1);
  std::vector<int> a, b, c;
  const auto client = std::make_shared<Somebody>();
  bench.begin({1}, &a);
  bench.busy.wait();
  const auto left = bench.begin({2}, &b, 10, "twice", client), stays = bench.begin({3}, &c);
  client->leave();
  bench.go.count_down();
  EXPECT_EQ(wait_for(left), 499);
  EXPECT_EQ(wait_for(stays), 1);
  EXPECT_EQ(bench.computed, (std::vector<int>{1, 3}));
}

TEST(QueueOfRequests, TooManyAndTooOldOnesAreRefused) {
  Bench bench({.requests = 2, .tokens = 100, .wait_seconds = 0.05}, 1);
  std::vector<int> a, b, c, d;
  bench.begin({1}, &a);
  bench.busy.wait();
  EXPECT_EQ(*bench.begin({2}, &b, 101), 429) << "more tokens than may wait";
  const auto second = bench.begin({2}, &b), third = bench.begin({3}, &c);
  EXPECT_EQ(*bench.begin({4}, &d), 429);
  EXPECT_EQ(bench.queue.load().requests, 2u);
  EXPECT_EQ(bench.queue.load().tokens, 20u);
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  bench.go.count_down();
  EXPECT_EQ(wait_for(second), 503);
  EXPECT_EQ(wait_for(third), 503);
  EXPECT_EQ(bench.queue.load().tokens, 0u);
}

TEST(QueueOfRequests, StoppedItGivesUpWhatWaits) {
  Bench bench({}, 1);
  std::vector<int> a, b;
  const auto begun = bench.begin({1}, &a);
  bench.busy.wait();
  const auto waits = bench.begin({2}, &b);
  std::thread stopper([&] { bench.queue.stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  bench.go.count_down();
  stopper.join();
  EXPECT_EQ(wait_for(begun), 1);
  EXPECT_EQ(wait_for(waits), 503);
  EXPECT_EQ(*bench.begin({3}, &b), 503);
}

}  // namespace
}  // namespace bertie::serve
