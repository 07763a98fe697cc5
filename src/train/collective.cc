#include "train/collective.h"

#include <cstdlib>

namespace bertie {
namespace {

class Alone final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void start_sum(std::span<float>) override {}
  void finish_sums() override {}
  void sum(std::span<double>) override {}
  bool any(bool mine) override { return mine; }
  void broadcast(std::string&) override {}
  void broadcast(std::span<float>) override {}
  void barrier() override {}
  void abort(int code) override { std::_Exit(code); }
};

}  // namespace

std::unique_ptr<Collective> join_ranks() { return std::make_unique<Alone>(); }

}  // namespace bertie
