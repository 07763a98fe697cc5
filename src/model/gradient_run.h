#pragma once
// Forward and back through a model that stays as it is: how a prediction, or a loss, hangs on what attention
// gives. Gradients of parameters are not computed, so that a pass takes no memory of the model's size.
#include <functional>
#include <memory>
#include <span>

#include "bertie/model.h"
#include "model/learner.h"

namespace bertie {

class GradientRun {
 public:
  // Error where weights are not in fp32, or attention is not BERT's own.
  explicit GradientRun(const Model& model, int threads = 0);
  ~GradientRun();

  void switch_off(std::span<const WhichHead> heads);  // as Run's

  // What a layer's heads gave, each a block of D columns, its gradient, and their values: (T, A) each, A
  // being the layer's heads · D. They are views that hold until the function returns.
  struct Seen {
    size_t layer = 0;
    Matrix<const float> context, d_context, values;
  };
  // The term's loss or logits; `see` is told of each layer, the last first.
  LossSum run(const Batch& batch, const LossTerm& term, const std::function<void(const Seen&)>& see);
  Team& team();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
