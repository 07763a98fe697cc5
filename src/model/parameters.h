#pragma once
// A learner's flat blocks: where each tensor is in them, fresh numbers, and numbers from a checkpoint.
#include <functional>
#include <string>
#include <vector>

#include "model/learner.h"
#include "model/tensors.h"

namespace bertie {

// allocate(tensors, true) for gradients: a layer without a bias has no place for a bias's gradient.
Block allocate_gradients(const std::vector<TensorSpec>& tensors);

// The parts of a block that allocate(tensors, true) made; `flat` is its beginning.
std::vector<Segment> segments_of(const std::vector<TensorSpec>& tensors, const float* flat);

// Fresh parameters: matrices normal with standard deviation deviation_of(tensor), cut off at two of them;
// vectors 0, but a norm's weights 1. An element depends on the seed, its tensor's name and
// its place alone.
void initialize(const std::vector<TensorSpec>& tensors, uint64_t seed,
                const std::function<float(const TensorSpec&)>& deviation_of);

// Reads tensors from a checkpoint. Those for which keep(tensor, whether it is there) says so stay as they
// are, and are returned.
std::vector<std::string> load_parameters(const std::vector<TensorSpec>& tensors, Checkpoint& checkpoint,
                                         const std::function<bool(const TensorSpec&, bool there)>& keep);

}  // namespace bertie
