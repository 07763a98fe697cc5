#pragma once
// The weights behind a Model and a Transformer, for the rooms that look at them.
#include "bertie/model.h"
#include "bertie/transformer.h"
#include "model/transformer_weights.h"
#include "model/weights.h"

namespace bertie {

struct WeightsAccess {
  static const Weights& of(const Model& model) { return model.weights(); }
  static const TransformerWeights& of(const Transformer& model) { return model.weights(); }
  // A Model of weights that somebody else owns.
  static Model view(const Weights& weights) {
    return Model(std::shared_ptr<const Weights>(std::shared_ptr<const Weights>(), &weights));
  }
};

inline const Weights& weights_of(const Model& model) { return WeightsAccess::of(model); }
inline const TransformerWeights& weights_of(const Transformer& model) { return WeightsAccess::of(model); }

}  // namespace bertie
