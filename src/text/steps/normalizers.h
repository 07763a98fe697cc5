#pragma once
// The normalizers of a tokenizer.json. To add one, derive from Normalizer and name it in make_normalizer.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/buffers.h"

namespace bertie::text {

class JsonObject;

// Const after building; any number of threads may use it. Text is valid UTF-8.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // May overwrite the spare buffers.
  virtual void apply(NormalizedString& text, Buffers& buffers) const = 0;
  // True only if apply would not change the text; a quick check that may miss some.
  virtual bool leaves_unchanged(std::string_view) const { return false; }
  // What decides how a code point is changed: the code point itself (and marks or jamo that combine with it),
  // a string that it is part of (then leaves_unchanged is exact), whitespace next to it or at the text's
  // ends, or anything.
  enum class Context { kCodePoint, kString, kWhitespace, kAnything };
  virtual Context context() const { return Context::kAnything; }
};
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;

// From the object "normalizer"; none if it is missing. Throws Error for an unknown type.
Normalizers make_normalizers(const JsonObject& object);

// SentencePiece's normalization (steps/charsmap.h); `name` is for errors.
std::unique_ptr<const Normalizer> precompiled_normalizer(std::string_view charsmap, const std::string& name);

// Sets `out` to a text whose first code point has index `first`.
void align(std::string_view text, uint32_t first, NormalizedString& out);
// A text normalized on its own, without alignments.
std::string normalized_text(const Normalizers& normalizers, std::string_view text);

}  // namespace bertie::text
