#pragma once
// Metaspace: SentencePiece writes "▁" for a space and puts one before the first word, so that pieces alone
// show where words begin.
#include <memory>
#include <optional>
#include <string>

#include "text/steps/decoders.h"
#include "text/steps/pre_tokenizers.h"

namespace bertie::text {

// Which words get a prefix: all, only the one at the beginning of the text, none.
enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceSettings {
  std::string replacement = "▁";  // one code point
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;  // before every replacement
};
MetaspaceSettings read_metaspace(const JsonObject& object);

std::unique_ptr<const PreTokenizer> metaspace_pre_tokenizer(const MetaspaceSettings& settings);
// Splits at whitespace and removes it.
std::unique_ptr<const PreTokenizer> whitespace_split();

// Metaspace that splits, alone or after WhitespaceSplit, as SentencePiece models have it; nothing for any
// other list of steps.
struct MetaspaceSplit {
  MetaspaceSettings metaspace;
  bool at_whitespace = false;
};
std::optional<MetaspaceSplit> find_metaspace_split(const PreTokenizers& steps);

std::unique_ptr<const Decoder> metaspace_decoder(const MetaspaceSettings& settings);

}  // namespace bertie::text
