#include "text/segmenters/composed_segmenter.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace bertie::text {

void push_words(const SubwordModel& model, PieceWriter& out) {
  NormalizedString& text = out.buffers.text;
  text.bytes.append(kPadding, '\0');
  for (Span word : out.buffers.words) {
    if (out.full()) return;
    model.push_word(text.bytes.data() + word.begin, word.size(), text.alignments.data() + word.begin, out);
    ++out.word;
  }
}

ComposedSegmenter::ComposedSegmenter(SegmenterSteps steps, const std::vector<AddedToken>& added)
    : steps_(std::move(steps)), raw_(added, false), normalized_(added, true) {}

void ComposedSegmenter::tokenize(std::string_view text, bool special_tokens_in_text,
                                 const FastPath* fast_path, PieceWriter& out) const {
  Buffers& buffers = out.buffers;
  if (!valid_utf8(text)) replace_invalid(text, buffers.valid_utf8), text = buffers.valid_utf8;
  const bool skip_special = !special_tokens_in_text;

  auto take_fast_path = [&](std::string_view part, uint32_t first, bool normalizes) {
    if (!fast_path || fast_path->normalizes() != normalizes) return false;
    const PieceWriter::Mark mark = out.mark();
    if (fast_path->tokenize(part, first, out)) return true;
    out.rewind(mark);
    return false;
  };
  auto push_unchanged = [&](std::string_view part, uint32_t first) {
    if (take_fast_path(part, first, false)) return;
    align(part, first, buffers.text);
    push_normalized(out);
  };
  split_at_added_tokens(raw_, text, skip_special, 0, out, [&](std::string_view part, uint32_t first) {
    if (take_fast_path(part, first, true)) return;
    if (!std::all_of(steps_.normalizers.begin(), steps_.normalizers.end(),
                     [&](const auto& n) { return n->leaves_unchanged(part); })) {
      align(part, first, buffers.text);
      normalize_and_push(skip_special, out);
    } else if (normalized_.empty()) {
      push_unchanged(part, first);
    } else {
      split_at_added_tokens(normalized_, part, skip_special, first, out, push_unchanged);
    }
  });
}

void ComposedSegmenter::normalize_and_push(bool skip_special, PieceWriter& out) const {
  Buffers& buffers = out.buffers;
  for (const auto& n : steps_.normalizers) n->apply(buffers.text, buffers);
  if (normalized_.empty()) {
    if (!buffers.text.bytes.empty()) push_normalized(out);
    return;
  }
  // The pre-tokenizers write to buffers.text, so the text to split must be elsewhere.
  NormalizedString& unsplit = buffers.unsplit;
  std::swap(unsplit, buffers.text);
  normalized_.split(unsplit.bytes, skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
    if (out.full()) return false;
    if (token) {
      out.push_word(token->id, unsplit.alignments[begin].begin, unsplit.alignments[end - 1].end);
    } else {
      buffers.text.clear();
      buffers.text.append(unsplit, begin, end);
      push_normalized(out);
    }
    return true;
  });
}

void ComposedSegmenter::push_normalized(PieceWriter& out) const {
  Buffers& buffers = out.buffers;
  buffers.words.assign(1, {0, uint32_t(buffers.text.bytes.size())});
  for (const auto& p : steps_.pre_tokenizers) p->apply(buffers.text, buffers.words, buffers);
  push_words(*steps_.model, out);
}

}  // namespace bertie::text
