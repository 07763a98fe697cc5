#include "explain/head_texts.h"

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "bertie/utf8.h"
#include "core/random.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

bool is_punctuation_alone(std::string_view text) {
  bool any = false, others = false;
  text::for_each_point(text, [&](uint32_t point) {
    const bool punctuation = text::flags(point) & text::kPunct;
    any |= punctuation, others |= !punctuation && !text::is_whitespace(point);
  });
  return any && !others;
}

HeadText read_head_text(const TextModel& model, std::string_view text) {
  HeadText out;
  out.encoding = model.tokenizer().encode(text);
  const Encoding& e = out.encoding;
  if (e.size() > model.model().config().max_tokens()) return {};
  for (size_t t = 0; t < e.size(); ++t) {
    out.words.push_back(e.special(t) ? -1 : e.words[t]);
    out.punctuation.push_back(!e.special(t) && is_punctuation_alone(text_at(text, e.offsets[t])));
  }
  return out;
}

}  // namespace

std::vector<uint8_t> special_kinds(const Encoding& encoding) {
  std::vector<uint8_t> kinds(encoding.size());
  uint8_t next = 1;
  for (size_t i = 0; i < kinds.size(); ++i)
    if (encoding.special(i)) kinds[i] = next, next = 2;
  return kinds;
}

HeadText head_text(const TextModel& model, std::string_view text) { return read_head_text(model, text); }

HeadText head_text(const TextModel& model, const ParsedSentence& sentence) {
  std::string joined;
  std::vector<uint32_t> ends;  // of words, in code points
  uint32_t length = 0;
  for (const ParsedWord& word : sentence.words) {
    if (!joined.empty()) joined += ' ', ++length;
    joined += word.form;
    length += uint32_t(CodePoints(word.form).size());
    ends.push_back(length);
  }
  HeadText out = read_head_text(model, joined);
  out.parsed = &sentence;
  const Encoding& e = out.encoding;
  for (size_t t = 0; t < e.size(); ++t) {
    if (e.special(t)) continue;
    // A token may begin with the space before its word, but not end with the one behind it.
    const auto word = std::lower_bound(ends.begin(), ends.end(), e.offsets[t].end);
    out.words[t] = word == ends.end() ? -1 : int32_t(word - ends.begin());
  }
  return out;
}

void for_each_batch(std::span<const HeadText> texts,
                    const std::function<void(size_t first, const Batch& batch)>& visit) {
  constexpr size_t kTokens = 2048;
  std::vector<int32_t> ids, types, offsets;
  for (size_t first = 0, last = 0; first < texts.size(); first = last) {
    ids.clear(), types.clear(), offsets.assign(1, 0);
    for (; last < texts.size() && (last == first || ids.size() + texts[last].encoding.size() <= kTokens);
         ++last) {
      const Encoding& e = texts[last].encoding;
      ids.insert(ids.end(), e.ids.begin(), e.ids.end());
      types.insert(types.end(), e.types.begin(), e.types.end());
      offsets.push_back(int32_t(ids.size()));
    }
    visit(first, {.ids = ids, .types = types, .offsets = offsets});
  }
}

MaskedText masked_text(const Encoding& encoding, int32_t mask_id, uint64_t seed, size_t number) {
  MaskedText out{.ids = encoding.ids, .rows = {}, .targets = {}};
  std::vector<int32_t> places;
  for (size_t t = 0; t < encoding.size(); ++t)
    if (!encoding.special(t)) places.push_back(int32_t(t));
  if (places.empty()) return out;
  Random random(seed, number);
  const auto count = size_t(std::max(1.0, std::round(0.15 * double(places.size()))));
  for (size_t i = 0; i < count; ++i)
    std::swap(places[i], places[i + random.below(uint32_t(places.size() - i))]);
  out.rows.assign(places.begin(), places.begin() + ptrdiff_t(count));
  std::sort(out.rows.begin(), out.rows.end());
  for (const int32_t row : out.rows) {
    out.targets.push_back(out.ids[size_t(row)]);
    out.ids[size_t(row)] = mask_id;
  }
  return out;
}

}  // namespace bertie
