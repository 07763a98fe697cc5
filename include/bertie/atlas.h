#pragma once
// All heads of a model at once: a small picture of each, and what it does in numbers.
//
//   const bertie::Attention all = model.attend("The bank deposited the money near the river bank.");
//   const bertie::Atlas small = bertie::atlas(all);
//   small.at(4, 2).entropy;   // layer 5, head 3
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/results.h"

namespace bertie {

// Means over the tokens that look. Shares are of the attention that a token has to give, from 0 to 1.
struct HeadSummary {
  float entropy = 0;   // of a row, in nats: 0 where one token has all, ln n where all have the same
  float distance = 0;  // |from − to|, in tokens
  float cls = 0;       // share of the first special token
  float sep = 0;       // share of the other special tokens
  float previous = 0, next = 0, self = 0;
};

struct BERTIE_API Atlas {
  size_t heads = 0;                    // of a layer
  std::vector<size_t> layers;          // those that there are, from 0
  std::vector<HeadSummary> summaries;  // (layers, heads)
  // (layers, heads, side, side), row-major: round(255·√w), so that small weights are told apart too. Where
  // side is less than the number of tokens, the largest weight of each block of tokens.
  size_t side = 0;
  std::vector<uint8_t> pictures;

  const HeadSummary& at(size_t layer, size_t head) const;  // Error if there is none
};

struct AtlasOptions {
  size_t side = 64;                // at most
  size_t picture_bytes = 640'000;  // of all pictures together, at most: side is smaller where heads are many
  int threads = 1;
};

BERTIE_API Atlas atlas(const Attention& attention, const AtlasOptions& options = {});

// What the page behind `bertie serve` draws: the tokens with their places and words, summaries, and pictures
// in base64. Layers and heads are counted from 1. `weights`: those of the attention too, as float16 or, where
// there are too many, as bytes like the pictures'.
struct AtlasJsonOptions {
  std::string_view model, text;
  std::optional<std::string_view> pair = {};
  bool weights = false;
};
BERTIE_API std::string to_json(const Atlas& atlas, const Attention& attention,
                               const AtlasJsonOptions& options);

// Weights of n × n tokens in side × side bytes, as in Atlas::pictures.
BERTIE_API std::vector<uint8_t> weight_picture(Matrix<const float> weights, size_t side);

}  // namespace bertie
