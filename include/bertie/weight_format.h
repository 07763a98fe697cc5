#pragma once
#include <cstddef>
#include <cstdint>

namespace bertie {

// How the weights of a model's layers are held in memory. Sums, biases, norms, embeddings and activations are
// fp32 whatever it is. Another format is one more case here and in Linear::with_numbers (src/kernels/gemm.h).
enum class WeightFormat : uint8_t {
  kFloat32,
  kBFloat16,  // half the memory; a weight is rounded to 8 bits, which changes it by 1/256 at most
};

constexpr size_t bytes_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      break;
    case WeightFormat::kBFloat16:
      return 2;
  }
  return 4;
}

}  // namespace bertie
