#pragma once
// A model's layers in 8-bit integers (kernels/int8.h): which inputs of each layer stay exact is measured on a
// sample of what the model reads.
#include <map>
#include <memory>
#include <vector>

#include "bertie/model.h"
#include "kernels/gemm.h"
#include "model/weights.h"

namespace bertie {

// The largest |x| of each input of the linear layers that a pass went through.
class InputRanges {
 public:
  void see(const kernels::Linear& layer, Matrix<const float> x);
  // The inputs of a layer with the largest numbers, so many, in ascending order; the first ones of a layer
  // that was not seen.
  std::vector<uint32_t> largest(const kernels::Linear& layer, size_t count) const;

 private:
  std::map<const kernels::Linear*, std::vector<float>> largest_;
};

// The weights of `model` as integers, its word embeddings too; what stays fp32 is norms, biases, positions,
// and heads. Error where `model` is not in fp32.
std::shared_ptr<Weights> quantized_weights(const Model& model, const Batch& sample);

}  // namespace bertie
