#pragma once
// What surrounds the pieces of a text or a pair: special tokens and types; and what is done to offsets.
#include <cstdint>
#include <string>
#include <vector>

#include "text/json_object.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

// One item of the template around a text or a pair: a special token's ids, or a text.
struct TemplateItem {
  int sequence = -1;  // 0 or 1: that text goes here; -1: `ids`
  int32_t type = 0;
  std::vector<int32_t> ids;
};

struct PostProcessor {
  // Only the texts, unless said otherwise.
  std::vector<TemplateItem> single = {{0, 0, {}}}, pair = {{0, 0, {}}, {1, 1, {}}};
  // Each one: take the spaces out of offsets that a token's text begins or ends with (ByteLevel's and
  // RoBERTa's trim_offsets); true: but for the one that add_prefix_space put before the first.
  std::vector<bool> trims;
};

// [CLS] a [SEP], and [CLS] a [SEP] b [SEP] with b and the last [SEP] of type 1.
PostProcessor bert_frame(int32_t cls, int32_t sep);
// <s> a </s>, and <s> a </s></s> b </s>, all of type 0.
PostProcessor roberta_frame(int32_t cls, int32_t sep);

// The section "post_processor"; only the texts if it is missing.
PostProcessor make_post_processor(const Section& section, const Vocabulary& vocabulary);

}  // namespace bertie::text
