#pragma once
// The cases of tests/golden/attention (tools/make_attention_goldens.py), as calls of bertie::attention.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "bertie/attention.h"
#include "support/data.h"
#include "support/tensors.h"

namespace bertie::test {

inline constexpr size_t kGoldenHeads = 2;

class GoldenCase {
 public:
  GoldenCase(const std::string& file, std::string name)
      : golden_(source_dir() / ("tests/golden/attention/" + file + ".safetensors")), name_(std::move(name)) {}

  bool has(const std::string& tensor) const { return golden_.has(name_ + "." + tensor); }
  // An input, kept until the case goes.
  std::span<const float> numbers(const std::string& tensor) {
    return floats_.emplace_back(golden_.floats(name_ + "." + tensor));
  }
  Matrix<const float> matrix(const std::string& tensor) {
    const auto all = numbers(tensor);
    const auto shape = golden_.shape(name_ + "." + tensor);
    return {all.data(), shape.at(0), all.size() / std::max<size_t>(shape.at(0), 1)};
  }
  Matrix<const uint8_t> mask() {
    const auto shape = golden_.shape(name_ + ".mask");
    return {bytes_.emplace_back(golden_.bytes(name_ + ".mask")).data(), shape.at(0), shape.at(1)};
  }
  std::vector<double> expected(const std::string& tensor) const {
    return golden_.doubles(name_ + "." + tensor);
  }
  const std::string& name() const { return name_; }

 private:
  Expected golden_;
  std::string name_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<uint8_t>> bytes_;
};

struct Golden {
  std::string file, name;
  std::function<AttentionOptions(GoldenCase&)> options;
};

inline const std::vector<Golden>& golden_cases() {
  static const int32_t global[] = {0, 5};
  static const auto plain = [](GoldenCase&) { return AttentionOptions{}; };
  static const auto looking = [](Look look) {
    return [look](GoldenCase&) { return AttentionOptions{.look = look}; };
  };
  static const auto computing = [](Compute compute, Look look = {}) {
    return [compute, look](GoldenCase&) { return AttentionOptions{.look = look, .compute = compute}; };
  };
  static const auto at_end = [](Look look) {
    look.queries_at_end = true;
    return look;
  };
  static const auto masked = [](GoldenCase& c) { return AttentionOptions{.look = Look::mask(c.mask())}; };
  static const auto spans = [](bool both_sides) {
    return [both_sides](GoldenCase& c) {
      return AttentionOptions{.look = Look::adaptive_span(c.numbers("spans"), 2, both_sides)};
    };
  };
  static const std::vector<Golden> cases{
      {"torch_attention", "self", plain},
      {"torch_attention", "cross", plain},
      {"torch_attention", "one_query", plain},
      {"torch_attention", "one_key", plain},
      {"torch_attention", "scale",
       [](GoldenCase&) { return AttentionOptions{.score = Score::scaled_by(0.75f)}; }},
      {"torch_attention", "causal", looking(Look::causal())},
      {"torch_attention", "causal_cross", looking(Look::causal())},
      {"torch_attention", "causal_at_end", looking(at_end(Look::causal()))},
      {"torch_attention", "causal_at_end", masked},
      {"torch_attention", "mask", masked},
      {"torch_attention", "window", looking(Look::window(1, 2))},
      {"torch_attention", "window", masked},
      {"torch_attention", "window_and_global", looking(Look::window_and_global(1, global))},
      {"torch_attention", "strided", looking(Look::strided(3))},
      {"torch_attention", "fixed", looking(Look::fixed(4, 2))},
      {"torch_attention", "big_bird",
       looking(
           Look::big_bird({.block = 2, .window = 3, .global = 1, .random = 2, .seed = (1ull << 40) + 5}))},
      {"dropout", "few",
       [](GoldenCase&) { return AttentionOptions{.dropout = {.rate = 0.3f, .seed = (1ull << 33) + 17}}; }},
      {"dropout", "many_keys",
       [](GoldenCase&) { return AttentionOptions{.dropout = {.rate = 0.1f, .seed = 5}}; }},
      {"scores", "general",
       [](GoldenCase& c) { return AttentionOptions{.score = Score::general(c.matrix("w"))}; }},
      {"scores", "additive",
       [](GoldenCase& c) {
         return AttentionOptions{.score =
                                     Score::additive(c.matrix("w1"), c.matrix("w2"), c.matrix("additive_v"))};
       }},
      {"adaptive_span", "back", spans(false)},
      {"adaptive_span", "both_sides", spans(true)},
      {"linear_time", "linear", computing(Compute::linear())},
      {"linear_time", "linear_causal", computing(Compute::linear(), Look::causal())},
      {"linear_time", "performer", computing(Compute::performer({.features = 10}))},
      {"linear_time", "performer_causal", computing(Compute::performer({.features = 10}), Look::causal())},
      {"linear_time", "linformer",
       [](GoldenCase& c) {
         return AttentionOptions{.compute = Compute::linformer(c.matrix("e"), c.matrix("f"))};
       }},
      {"linear_time", "nystrom", computing(Compute::nystrom({.landmarks = 4, .iterations = 6}))},
      {"linear_time", "nystrom_uneven", computing(Compute::nystrom({.landmarks = 3, .iterations = 2}))},
  };
  return cases;
}

}  // namespace bertie::test
