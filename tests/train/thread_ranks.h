#pragma once
// Ranks that are threads of one process, to test what they agree on.
#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "train/ranks/collective.h"

namespace bertie::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), barrier_(size), parts_(size_t(size)), words_(size_t(size)) {}

  // body(collective) on each rank; the first exception comes out.
  void run(const std::function<void(Collective&)>& body) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size_));
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([&, r] {
        Rank rank(*this, r);
        try {
          body(rank);
        } catch (...) {
          errors[size_t(r)] = std::current_exception();
          barrier_.arrive_and_drop();
        }
      });
    for (std::thread& t : threads) t.join();
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
  }
  size_t sums_started = 0;  // by rank 0

 private:
  class Rank final : public Collective {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    int ranks_here() const override { return all_.size_; }
    void start_sum(std::span<float> part) override {
      if (rank_ == 0) ++all_.sums_started;
      pending_.push_back(part);
    }
    void finish_sums() override {
      for (const auto part : pending_) add_up(part);
      pending_.clear();
    }
    void sum(std::span<double> numbers) override { add_up(numbers); }
    void broadcast(std::string& bytes) override {
      if (rank_ == 0) all_.bytes_ = bytes;
      all_.barrier_.arrive_and_wait();
      bytes = all_.bytes_;
      all_.barrier_.arrive_and_wait();
    }
    void broadcast(std::span<float> numbers) override {
      if (rank_ == 0) all_.parts_[0] = numbers;
      all_.barrier_.arrive_and_wait();
      if (rank_ != 0) std::copy(all_.parts_[0].begin(), all_.parts_[0].end(), numbers.begin());
      all_.barrier_.arrive_and_wait();
    }
    void barrier() override { all_.barrier_.arrive_and_wait(); }
    void abort(int code) override { std::_Exit(code); }

   private:
    // In the order of ranks.
    template <class T>
    void add_up(std::span<T> mine) {
      auto& places = [&]() -> auto& {
        if constexpr (std::is_same_v<T, float>)
          return all_.parts_;
        else
          return all_.words_;
      }
      ();
      places[size_t(rank_)] = mine;
      all_.barrier_.arrive_and_wait();
      std::vector<T> sum(mine.size());
      for (const auto& place : places)
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += place[i];
      all_.barrier_.arrive_and_wait();
      std::copy(sum.begin(), sum.end(), mine.begin());
      all_.barrier_.arrive_and_wait();
    }
    ThreadRanks& all_;
    int rank_;
    std::vector<std::span<float>> pending_;
  };

  int size_;
  std::barrier<> barrier_;
  std::vector<std::span<float>> parts_;
  std::vector<std::span<double>> words_;
  std::string bytes_;
};

}  // namespace bertie::test
