#pragma once
// The mechanisms of bertie/attention.h as `bertie bench attention` measures them.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/attention.h"
#include "cli/options.h"

namespace bertie::cli {

struct AttentionShape {
  size_t n, heads, head_size;
};

// A mechanism made ready for sequences of n tokens: its options and all that they look at.
struct ReadyMechanism {
  ReadyMechanism() = default;
  ReadyMechanism(const ReadyMechanism&) = delete;  // options look into it
  ReadyMechanism& operator=(const ReadyMechanism&) = delete;

  Matrix<float> random(size_t rows, size_t cols, float size);  // uniform in −size..size
  Matrix<float> zeros(size_t rows, size_t cols);

  AttentionOptions options;
  AttentionGradients gradients;  // of its own parameters; q, k and v are empty
  std::span<float> weights;      // where the weights are asked for

  double pairs = 0;                        // of a query and a key that it sees, over all heads
  double forward = 0, backward = 0;        // operations
  size_t table_bytes = 0;                  // of the mask or the weights, which grow with n²
  std::vector<std::vector<float>> memory;  // of its parameters, and all else that is large
  std::vector<uint8_t> mask;
  std::vector<int32_t> global_tokens;
  std::vector<float> spans, span_gradients;
};

struct Mechanism {
  enum class Family : uint8_t { kAllKeys, kSomeKeys, kApproximate };

  std::string_view name, help;
  Family family;
  void (*set)(ReadyMechanism&, const AttentionShape&);
  size_t longest = SIZE_MAX;  // beyond it, time or memory is not worth a measurement
  bool has_backward = true;
};

const std::vector<Mechanism>& mechanisms();               // the first one is full attention
const Mechanism& mechanism_named(std::string_view name);  // one of --mechanism's choices
std::vector<Choice> mechanism_choices();

// Uniform in −size..size.
void fill_randomly(std::vector<float>& numbers, float size, size_t seed);

// Sets the options, draws the parameters and counts the operations: two for each multiply-add that the
// formula asks for, on the keys that are seen. The backward pass counts the scores once more, since they
// are not kept. An exponential or a tanh is one operation of the additive score, and none elsewhere.
void make_ready(const Mechanism& mechanism, const AttentionShape& shape, ReadyMechanism& ready);

}  // namespace bertie::cli
