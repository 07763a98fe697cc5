#pragma once
// The pre-tokenizers of a tokenizer.json. To add one, derive from PreTokenizer and name it in
// make_pre_tokenizers.
#include <memory>
#include <optional>
#include <vector>

#include "text/buffers.h"

namespace bertie::text {

class JsonObject;

// Const after building; any number of threads may use it. Text is valid UTF-8.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Splits every word of `words` (spans of `text`, in order, none empty) further, and may change the text.
  // May overwrite the spare buffers.
  virtual void apply(NormalizedString& text, std::vector<Span>& words, Buffers& buffers) const = 0;
};
using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

// From the object "pre_tokenizer"; none if it is missing. Throws Error for an unknown type.
PreTokenizers make_pre_tokenizers(const JsonObject& object);

struct ByteLevelSettings {
  bool add_prefix_space = true;  // before a text that does not begin with a space
  bool use_regex = true;         // false: the whole text is one word
};
std::unique_ptr<const PreTokenizer> byte_level_pre_tokenizer(const ByteLevelSettings& settings);
// The settings, if the object "pre_tokenizer" is ByteLevel and nothing else.
std::optional<ByteLevelSettings> only_byte_level(const JsonObject& object);

}  // namespace bertie::text
