#pragma once
#include <cstddef>
#include <cstdint>

namespace bertie {

// How the weights of a model's layers are held in memory. Biases, norms and activations are fp32 whatever it
// is.
enum class WeightFormat : uint8_t {
  kFloat32,
  kBFloat16,  // half the memory; a weight is rounded to 8 bits, which changes it by 1/256 at most
  kInt8,  // a quarter, and the products are of 8-bit integers: faster, and less exact (docs/quantizing.md)
};

constexpr size_t bytes_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      break;
    case WeightFormat::kBFloat16:
      return 2;
    case WeightFormat::kInt8:
      return 1;
  }
  return 4;
}

}  // namespace bertie
