#pragma once
// Sentences as heads are judged on them: tokens in batches, and which word each token is of.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bertie/conllu.h"
#include "bertie/model.h"
#include "bertie/text_model.h"

namespace bertie {

struct HeadText {
  Encoding encoding;
  std::vector<int32_t> words;        // of each token; -1: special
  std::vector<uint8_t> punctuation;  // of each token: nothing else is in it
  const ParsedSentence* parsed = nullptr;
};

// For each token: 1 the first that the tokenizer added ([CLS]), 2 any other that it added ([SEP]), 0 neither.
std::vector<uint8_t> special_kinds(const Encoding& encoding);

// Words with a space between them, as the model reads them. Empty where the model takes fewer tokens.
HeadText head_text(const TextModel& model, const ParsedSentence& sentence);
HeadText head_text(const TextModel& model, std::string_view text);

// Texts one after the other, some 2,048 tokens at a time; visit(first, batch) of texts first .. .
void for_each_batch(std::span<const HeadText> texts,
                    const std::function<void(size_t first, const Batch& batch)>& visit);

// Some 15% of a text's tokens masked, at least one, the same for the same seed and number: ids, the rows of
// the masked ones and what had been there.
struct MaskedText {
  std::vector<int32_t> ids, rows, targets;
};
MaskedText masked_text(const Encoding& encoding, int32_t mask_id, uint64_t seed, size_t number);

}  // namespace bertie
