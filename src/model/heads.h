#pragma once
// What sits on top of the layers: the pooler and the heads.
#include "core/arena.h"
#include "core/parallel.h"
#include "model/weights.h"

namespace bertie {

// What `capture` asks of this model beyond its layers; Error for what the model does not have.
void check_heads(const Weights& w, const Batch& batch, const Capture& capture);

// Memory that finish takes from its arena, at most.
size_t finish_bytes(const Weights& w, const Batch& batch, const Capture& capture);

// The pooled vectors and the logits that `capture` asks for.
struct Finished {
  Matrix<const float> pooled, logits;
};
Finished finish(const Weights& w, const Batch& batch, const Capture& capture, Matrix<const float> hidden,
                Arena& arena, Team& team);

}  // namespace bertie
