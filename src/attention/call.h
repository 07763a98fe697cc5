#pragma once
// A call of the public functions whose arguments have been checked: an AttentionBatch, and the projections
// that general and additive scores begin with.
#include <optional>

#include "attention/batch.h"
#include "attention/workspace.h"

namespace bertie {

class Call {
 public:
  // Throws Error that names the argument.
  Call(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<const float> out,
       const AttentionOptions& options);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // general and additive scores: q and k of the kernel are products of q and k of the user.
  bool projects() const { return score.kind >= Score::Kind::kGeneral; }
  size_t projected_columns() const;     // of each of the two, all heads
  AttentionBatch kernel_shape() const;  // batch with the shapes that q and k have after project()
  size_t projection_bytes() const;
  // Takes projection_bytes from the arena and makes batch.q and batch.k the projected ones.
  void project();
  // From gradients of the projected q and k to those of the user's q, k and of the projections.
  void project_backward(Matrix<const float> dq, Matrix<const float> dk, const AttentionGradients& gradients);

  Matrix<const float> q, k;  // the user's
  Score score;
  Compute compute;
  AttentionBatch batch;
  Workspace::Parts* parts;

 private:
  void check_shapes(Matrix<const float> v, Matrix<const float> out) const;
  void check_offsets(const AttentionOptions& options);
  void check_look() const;
  void check_compute() const;

  int32_t one_q_[2] = {}, one_k_[2] = {};
  float* product_memory_ = nullptr;
  std::optional<Workspace> own_;
};

// The public functions on a call that has been checked. log_sums is (Tq, H) for the backward pass, or empty;
// only softmax fills it. weights has dot_product::weights_size(call.batch) numbers, or none.
void attention_forward(Call& call, Matrix<float> out, std::span<float> log_sums, std::span<float> weights);
void attention_backward(Call& call, Matrix<const float> out, std::span<const float> log_sums,
                        Matrix<const float> d_out, const AttentionGradients& gradients);
// Takes the memory of both for a call of this shape, so that they take none.
enum class Reserve { kForward, kWeights, kBackward };
void reserve_attention(const Call& call, Reserve what);

}  // namespace bertie
