#pragma once
// Post-processing: the special tokens and types around a text or a pair, and the trimming of offsets.
#include <cstdint>
#include <vector>

namespace bertie::text {

// One item of a template: a text, or the ids of a special token.
struct TemplateItem {
  int sequence = -1;  // 0 or 1: the first or second text; -1: `ids`
  int32_t type = 0;
  std::vector<int32_t> ids = {};
};
using Template = std::vector<TemplateItem>;

// Removes the spaces at the beginning and end of a token from its offsets. With add_prefix_space, the space
// that was added before the first token is not counted: it has no offset.
struct TrimOffsets {
  bool add_prefix_space;
};

struct PostProcessor {
  Template single = {{.sequence = 0}}, pair = {{.sequence = 0}, {.sequence = 1, .type = 1}};
  std::vector<TrimOffsets> trim_offsets;  // in order
};

// [CLS] a [SEP], and [CLS] a [SEP] b [SEP] with type 1 for b and the last [SEP].
inline PostProcessor bert_template(int32_t cls, int32_t sep) {
  return {.single = {{-1, 0, {cls}}, {0, 0}, {-1, 0, {sep}}},
          .pair = {{-1, 0, {cls}}, {0, 0}, {-1, 0, {sep}}, {1, 1}, {-1, 1, {sep}}},
          .trim_offsets = {}};
}

// <s> a </s>, and <s> a </s></s> b </s>, all of type 0.
inline PostProcessor roberta_template(int32_t cls, int32_t sep) {
  return {.single = {{-1, 0, {cls}}, {0, 0}, {-1, 0, {sep}}},
          .pair = {{-1, 0, {cls}}, {0, 0}, {-1, 0, {sep, sep}}, {1, 0}, {-1, 0, {sep}}},
          .trim_offsets = {}};
}

}  // namespace bertie::text
