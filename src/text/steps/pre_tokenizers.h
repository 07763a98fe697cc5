#pragma once
// The pre-tokenizers of a tokenizer.json as steps of a Pipeline.
#include <memory>
#include <optional>
#include <vector>

#include "text/segmenters/byte_level_fast_path.h"
#include "text/segmenters/composed_segmenter.h"
#include "text/json_object.h"

namespace bertie::text {

// The section "pre_tokenizer"; none if it is missing. Throws Error for one that we do not know.
std::vector<std::unique_ptr<const PreTokenizer>> make_pre_tokenizers(const Section& section);

std::unique_ptr<const PreTokenizer> byte_level_step(const ByteLevelSettings& settings);
// How it is set if it is ByteLevel and nothing else: then byte_level_road does the same.
std::optional<ByteLevelSettings> only_byte_level(const Section& section);

}  // namespace bertie::text
