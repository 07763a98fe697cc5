#pragma once
// What sits on top of the layers: the pooler and the heads.
#include "core/arena.h"
#include "core/parallel.h"
#include "model/weights.h"

namespace bertie {

// Whether a head says something about each token, or about a sequence; whether it looks at the pooled vector.
bool for_each_token(Head head);
bool uses_pooled(const Weights& w, Head head);
// The token that speaks for sequence s: its first, or for a causal model the last that is not padding, as
// transformers has it. -1: the sequence is empty.
ptrdiff_t speaker(const Weights& w, const Batch& batch, size_t s);

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
