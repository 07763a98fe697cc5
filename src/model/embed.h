#pragma once
// The way into the layers: word + position + type.
#include <span>
#include <vector>

#include "core/parallel.h"
#include "model/cache.h"
#include "model/transformer_weights.h"
#include "model/weights.h"

namespace bertie {

// Error if ids, types or lengths do not fit the model.
void check_tokens(const Batch& batch, const Config& config, const KeyValues* cache);

// Which row of the position table each token adds: its place in the sequence. RoBERTa's places begin after
// the padding token's id, and padding, should a text hold it, stands at that id and does not count.
void find_positions(const Weights& w, const Batch& batch, const KeyValues* cache,
                    std::vector<int32_t>& positions);

// y[t] = word[ids[t]] + position[positions[t]] + type[types[t]]
void embed(const Weights& w, const Batch& batch, std::span<const int32_t> positions, Matrix<float> y,
           Team& team);
// The Transformer's: positions are places in the sequence, with a cache those that it has come to, and
// y[t] = word[ids[t]]·√C + position[positions[t]]
void find_positions(const Batch& batch, const KeyValues* cache, std::vector<int32_t>& positions);
void embed(const TransformerWeights& w, const Batch& batch, std::span<const int32_t> positions,
           Matrix<float> y, Team& team);

}  // namespace bertie
