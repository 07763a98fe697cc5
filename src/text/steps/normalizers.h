#pragma once
// The normalizers of a tokenizer.json as steps of a Pipeline.
#include <memory>
#include <vector>

#include "text/segmenters/composed_segmenter.h"
#include "text/json_object.h"

namespace bertie::text {

// The section "normalizer"; none if it is missing. Throws Error for one that we do not know.
std::vector<std::unique_ptr<const Normalizer>> make_normalizers(const Section& section);

// SentencePiece's map (text/steps/charsmap.h); `name` is what errors call it.
std::unique_ptr<const Normalizer> precompiled_normalizer(std::string_view charsmap, const std::string& name);

}  // namespace bertie::text
