#pragma once
// The normalizers of a tokenizer.json as steps of a Pipeline.
#include <memory>
#include <vector>

#include "text/pipeline.h"
#include "text/section.h"

namespace bertie::text {

// The section "normalizer"; none if it is missing. Throws Error for one that we do not know.
std::vector<std::unique_ptr<const Normalizer>> make_normalizers(const Section& section);

// SentencePiece's map (text/charsmap.h); `name` is what errors call it.
std::unique_ptr<const Normalizer> precompiled_normalizer(std::string_view charsmap, const std::string& name);

}  // namespace bertie::text
