#include "text/segmenters/sentence_piece_fast_path.h"

#include <algorithm>

#include "text/unicode/unicode.h"
#include "text/unicode/forms.h"
#include "text/models/vocabulary.h"

namespace bertie::text {
namespace {

// True if what a step made of one code point keeps apart from its neighbours in the steps to come.
bool keeps_apart(std::string_view text) {
  const char *begin = text.data(), *end = begin + text.size(), *last = end - 1;
  while (last > begin && is_continuation(*last)) --last;
  const uint32_t head = decode_utf8(begin, end).point, tail = decode_utf8(last, end).point;
  return stands_alone(head) && !composes_with_previous(head) &&
         (stands_alone(tail) || combining_class(tail) != 0);
}

}  // namespace

std::unique_ptr<const UnigramShortcut> UnigramShortcut::make(const PipelineParts& parts,
                                                             const std::vector<AddedToken>& added) {
  const std::optional<MarkedWords> words = marked_words(parts.pre_tokenizers);
  if (!words) return nullptr;
  std::unique_ptr<UnigramShortcut> out(new UnigramShortcut(parts, *words, added));
  return out->table_[' '] == kThorough ? nullptr : std::move(out);
}

UnigramShortcut::UnigramShortcut(const PipelineParts& parts, const MarkedWords& words,
                                 const std::vector<AddedToken>& added)
    : model_(*parts.model), words_(words) {
  table_.fill(kThorough);
  for (const auto& n : parts.normalizers) {
    const Normalizer::Sees sees = n->sees();
    if (sees == Normalizer::Sees::kString && points_.empty() && !single_spaces_)
      strings_.push_back(n.get());
    else if (sees == Normalizer::Sees::kPoint && !single_spaces_)
      points_.push_back(n.get());
    else if (sees == Normalizer::Sees::kSpaces)
      single_spaces_ = true;
    else
      return;
  }
  std::array<bool, 256> begins_token{};
  for (const AddedToken& t : added)
    if (t.normalized) begins_token[uint8_t(t.content[0])] = true;
  for (uint32_t c = 0; c < kTwoBytes; ++c) table_[c] = judge(c, begins_token);
  for (uint32_t i = 0; i < kPunctuationCount; ++i)
    table_[kTwoBytes + i] = judge(kPunctuation + i, begins_token);
}

uint32_t UnigramShortcut::judge(uint32_t point, const std::array<bool, 256>& begins_token) const {
  Workspace w;
  char utf8[4];
  w.text.append({utf8, encode_utf8(point, utf8)}, {0, 1});
  if (!keeps_apart(w.text.bytes)) return kThorough;
  for (const Normalizer* n : points_) {
    n->apply(w.text, w);
    if (w.text.bytes.empty() || !keeps_apart(w.text.bytes)) return kThorough;
  }
  const std::string& bytes = w.text.bytes;
  auto [to, length] = decode_utf8(bytes.data(), bytes.data() + bytes.size());
  if (length != bytes.size() || bytes == words_.marks.replacement || begins_token[uint8_t(bytes[0])])
    return kThorough;
  const bool space = words_.at_whitespace ? (flags(to) & kRawSpace) != 0 : to == ' ';
  // Without a split at whitespace a space other than ' ' is a letter.
  if (single_spaces_ && !space && (flags(to) & kRawSpace)) return kThorough;
  return to | (space ? kSpace : 0);
}

bool UnigramShortcut::tokenize(std::string_view text, uint32_t first, Pieces& out) const {
  for (const Normalizer* n : strings_)
    if (!n->leaves_alone(text)) return false;
  const std::string& mark = words_.marks.replacement;
  const Prefix prefix = words_.marks.prefix;
  Workspace& w = out.workspace;
  w.text.clear(), w.words.clear();
  w.text.bytes.reserve(text.size() + text.size() / 2 + kPadding);
  w.text.places.reserve(text.size() + text.size() / 2 + kPadding);
  uint32_t begin = 0;
  bool in_word = false, after_space = false;
  auto end_word = [&] {
    if (in_word) w.words.push_back({begin, uint32_t(w.text.bytes.size())});
    in_word = false;
  };
  auto begin_word = [&](bool marked, Offset place) {
    begin = uint32_t(w.text.bytes.size()), in_word = true;
    if (marked) w.text.append(mark, place);
  };
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++first) {
    uint32_t point = uint8_t(*p), length = 1;
    if (point >= 0x80) {
      const Decoded d = decode_utf8(p, end);
      point = d.point, length = d.length;
    }
    const uint32_t to = entry(point);
    if (to == kThorough) return false;
    const Offset place{first, first + 1};
    const bool space = to & kSpace;
    if (space) {
      if (single_spaces_ && (after_space || p == text.data() || p + length == end)) return false;
      end_word();
      if (!words_.at_whitespace) begin_word(true, place);  // the space is the word's mark
    } else {
      if (!in_word) begin_word(prefix == Prefix::kAlways || (prefix == Prefix::kFirst && first == 0), place);
      if (to < 0x80) {
        w.text.bytes.push_back(char(to));
        w.text.places.push_back(place);
      } else {
        char utf8[4];
        w.text.append({utf8, encode_utf8(to, utf8)}, place);
      }
    }
    after_space = space;
    p += length;
  }
  end_word();
  w.text.bytes.append(kPadding, '\0');
  for (Span word : w.words) {
    if (out.full()) break;
    model_.push_word(w.text.bytes.data() + word.begin, word.size(), w.text.places.data() + word.begin, out);
    ++out.word;
  }
  return true;
}

}  // namespace bertie::text
