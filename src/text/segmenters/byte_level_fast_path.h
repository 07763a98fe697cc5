#pragma once
// The fast path of byte-level BPE: splits the raw bytes with GPT-2's pattern and looks up each word whole.
// Only words that are not tokens are merged byte by byte.
#include <memory>

#include "text/models/bpe.h"
#include "text/segmenters/composed_segmenter.h"

namespace bertie::text {

// For ByteLevel as the only pre-tokenizer. `model` must outlive the result. Nothing if the model is not
// byte-level: it has a prefix or suffix, or lacks a byte.
std::unique_ptr<const FastPath> make_byte_level_fast_path(const Bpe& model,
                                                          const ByteLevelSettings& settings);

}  // namespace bertie::text
