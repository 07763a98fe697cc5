#pragma once
// BertNormalizer: clean text, put spaces around Chinese characters, decompose and remove marks, lowercase, in
// this order, with an origin for every byte of the result.
//
// BertSegmenter does the same with one table lookup per code point, and calls this where that is not enough
// (segmenters/bert_segmenter.h).
#include <cstdint>
#include <string>
#include <string_view>

#include "text/buffers.h"

namespace bertie::text {

struct BertNormalizerSettings {
  bool clean_text = true, split_cjk = true, strip_accents = true, lowercase = true;
};

// The first code point of `text` has index `first`.
void bert_normalize(std::string_view text, uint32_t first, const BertNormalizerSettings& settings,
                    BertNormalized& out);
std::string bert_normalized_text(std::string_view text, const BertNormalizerSettings& settings);

}  // namespace bertie::text
