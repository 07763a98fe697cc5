#pragma once
// The quick way of byte-level BPE: GPT-2's words cut out of the raw bytes, each looked up whole, and merged
// byte by byte only where it is no token of its own.
#include <memory>

#include "text/models/bpe.h"

namespace bertie::text {

struct ByteLevelSettings {
  bool add_prefix_space = true;  // before text that begins with none
  bool use_regex = true;         // false: all of the text is one word
};

// What ByteLevel and `model` do to text; `model` must outlive it. Nothing if the model is not of that kind:
// it marks beginnings or ends of words, or lacks a byte.
std::unique_ptr<const Shortcut> byte_level_road(const Bpe& model, const ByteLevelSettings& settings);

}  // namespace bertie::text
