#pragma once
// BERT's normaliser, written for exactness: clean text, spaces around Chinese characters, canonical
// decomposition and removal of marks, lower case, in this order, with every byte of the result knowing
// which code point of the original it came from.
//
// The fast road (text/segmenters/bert_segmenter.cc) does the same with one table look-up per code point. It comes here
// for what one code point alone does not decide: marks that are kept and may change places, added tokens
// that match normalised text, and text that is not to be cleaned.
#include <cstdint>
#include <string_view>

#include "text/buffers.h"

namespace bertie::text {

struct NormalizerSettings {
  bool clean_text = true, split_cjk = true, strip_accents = true, lowercase = true;
};

// In Normalized (text/buffers.h), `bytes` is UTF-8 followed by kPadding zeros that text() leaves out, and
// origins[i] is the index of the code point that byte i came from.
// The first code point of `text` is number `first`.
void normalize(std::string_view text, uint32_t first, const NormalizerSettings& settings, Normalized& out);

}  // namespace bertie::text
