#pragma once
// Spaces that are seen: SentencePiece writes "▁" for a space and puts one before the first word, so that
// pieces alone tell where words begin.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/steps/decoders.h"
#include "text/segmenters/composed_segmenter.h"

namespace bertie::text {

enum class Prefix {
  kAlways,
  kFirst,
  kNever
};  // which words get one: all, the one at the text's beginning, none

struct MetaspaceSettings {
  std::string replacement = "▁";  // one code point
  Prefix prefix = Prefix::kAlways;
  bool split = true;  // before every replacement
};
MetaspaceSettings read_metaspace(const Section& section);

std::unique_ptr<const PreTokenizer> metaspace(const MetaspaceSettings& settings);
// Words between spaces; the spaces go.
std::unique_ptr<const PreTokenizer> whitespace_split();

// Metaspace that splits, alone or after a split at whitespace: what SentencePiece models have. Nothing for
// any other list of steps.
struct MarkedWords {
  MetaspaceSettings marks;
  bool at_whitespace = false;
};
std::optional<MarkedWords> marked_words(const std::vector<std::unique_ptr<const PreTokenizer>>& steps);

std::unique_ptr<const Decoder> metaspace_decoder(const MetaspaceSettings& settings);

}  // namespace bertie::text
