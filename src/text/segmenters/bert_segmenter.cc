#include "text/segmenters/bert_segmenter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

static_assert(std::endian::native == std::endian::little,
              "keys are cut out of the text as little-endian words");

// The next eight bytes, zeros past the end.
inline uint64_t load_text(const char* p, const char* end) {
  uint64_t bytes = 0;
  if (end - p >= 8) [[likely]]
    std::memcpy(&bytes, p, 8);
  else
    std::memcpy(&bytes, p, size_t(end - p));
  return bytes;
}

// The leading ASCII letters and digits of eight bytes, in lower case if `lower_bit` is 0x2020... (unchanged
// if 0), with zeros after them, and how many they are.
struct Cut {
  uint64_t bytes;
  unsigned count;
};
inline Cut cut_word(uint64_t x, uint64_t lower_bit) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  // In each byte, without carries: adding 0x80 - c sets the high bit if the byte is at least c.
  uint64_t seven = x & ~kHigh, low = seven | 0x20 * kOnes;
  uint64_t letter = (low + (0x80 - 'a') * kOnes) & ~(low + (0x7F - 'z') * kOnes);
  uint64_t digit = (seven + (0x80 - '0') * kOnes) & ~(seven + (0x7F - '9') * kOnes);
  uint64_t stop = ~((letter | digit) & ~x) & kHigh;
  uint64_t lowered = x | ((letter & kHigh) >> 2 & lower_bit);
  if (stop == 0) return {lowered, 8};
  unsigned bits = unsigned(std::countr_zero(stop)) & ~7u;
  return {lowered & ((uint64_t{1} << bits) - 1), bits / 8};
}

// decode_utf8 with the common cases inlined.
inline Decoded decode_inline(const char* p, const char* end) {
  uint8_t lead = uint8_t(*p);
  if (end - p >= 3) [[likely]] {
    uint32_t second = uint8_t(p[1]) ^ 0x80u, third = uint8_t(p[2]) ^ 0x80u;  // below 64 in continuation bytes
    if (lead >= 0xC2 && lead < 0xE0 && second < 64) return {(lead & 0x1Fu) << 6 | second, 2};
    uint32_t point = (lead & 0x0Fu) << 12 | second << 6 | third;
    if ((lead & 0xF0) == 0xE0 && (second | third) < 64 && point >= 0x800 && (point & 0xF800) != 0xD800)
      return {point, 3};
  }
  return decode_utf8(p, end);
}

}  // namespace

// A word that is being read: its normalized bytes, and the origin of each. Beyond kMaxWordChars only `chars`
// and `last` change.
struct BertSegmenter::Word {
  static constexpr size_t kBytes = 4 * kMaxWordChars;
  char bytes[kBytes + kPadding];
  uint32_t origins[kBytes + 4];
  size_t n = 0, chars = 0;
  uint32_t last = 0;  // the origin of the last code point

  // Reads four bytes of `utf8` whatever the length.
  void append(const char* utf8, size_t length, uint32_t origin) {
    last = origin;
    if (++chars > kMaxWordChars) return;
    std::memcpy(bytes + n, utf8, 4);
    for (size_t i = 0; i < 4; ++i) origins[n + i] = origin;
    n += length;
  }
  void append(uint32_t point, uint32_t origin) {
    char utf8[4] = {};
    append(utf8, encode_utf8(point, utf8), origin);
  }
};

BertSegmenter::BertSegmenter(WordPiece model, const BertNormalizerSettings& normalizer,
                             const std::vector<AddedToken>& added)
    : model_(std::move(model)),
      normalizer_(normalizer),
      raw_(added, false),
      normalized_(added, true),
      table_(normalizer) {
  for (uint32_t c = 0; c < 256; ++c) {
    AsciiClass type = AsciiClass::kOther;
    if (c < 128) {
      const CharAction action = BertCharTable::action(table_[c]);
      if (action == CharAction::kSpace) type = AsciiClass::kSpace;
      if (action == CharAction::kPunct) type = AsciiClass::kPunct;
      if (action == CharAction::kKeep || action == CharAction::kReplace) type = AsciiClass::kWord;
      const char key[1 + kPadding] = {char(c)};
      ascii_id_[c] = model_.id_or_unk(key, 1);
    }
    ascii_class_[c] = type;
  }
}

bool BertSegmenter::fast_path(std::string_view text, uint32_t index, PieceWriter& out) const {
  const char *p = text.data(), *const end = p + text.size();
  const uint64_t lower_bit = normalizer_.lowercase ? 0x2020202020202020 : 0;
  Word word;
  while (p < end) {
    switch (ascii_class_[uint8_t(*p)]) {
      case AsciiClass::kSpace:
        ++p, ++index;
        continue;
      case AsciiClass::kPunct:
        if (out.full()) return true;
        out.push_word(ascii_id_[uint8_t(*p)], index, index + 1);
        ++p, ++index;
        continue;
      case AsciiClass::kOther:
        if (out.full()) return true;
        if (!(p = push_mixed_words(p, end, index, word, out))) return false;
        continue;
      case AsciiClass::kWord:
        break;
    }
    if (out.full()) return true;
    Cut low = cut_word(load_text(p, end), lower_bit), high = {0, 0};
    size_t n = low.count;
    if (n == 8 && p + 8 < end) high = cut_word(load_text(p + 8, end), lower_bit), n += high.count;
    std::memcpy(word.bytes, &low.bytes, 8);
    std::memcpy(word.bytes + 8, &high.bytes, 8);
    if (n == 16) {
      for (Cut more; p + n < end; n += more.count) {
        more = cut_word(load_text(p + n, end), lower_bit);
        if (n <= Word::kBytes - 8) std::memcpy(word.bytes + n, &more.bytes, 8);
        if (more.count < 8) {
          n += more.count;
          break;
        }
      }
    }
    if (p + n < end && ascii_class_[uint8_t(p[n])] == AsciiClass::kOther) {
      if (!(p = push_mixed_words(p, end, index, word, out))) return false;
      continue;
    }
    uint32_t begin = index;
    p += n, index += uint32_t(n);
    if (n > model_.max_word_chars()) {
      out.push_word(model_.unk_id(), begin, index);
    } else if (int32_t id = n <= 16 ? model_.vocabulary().find_short(low.bytes, high.bytes, n)
                                    : model_.vocabulary().find(word.bytes, n, false);
               id >= 0) {
      out.push_word(id, begin, index);
    } else {
      model_.push_pieces(
          word.bytes, n, [begin](size_t i) { return begin + uint32_t(i); }, out);
    }
  }
  return true;
}

// Pushes words from p on that contain other code points than ASCII letters and digits. Returns where it
// stopped, or nullptr if the text needs the slow path.
const char* BertSegmenter::push_mixed_words(const char* p, const char* end, uint32_t& index, Word& word,
                                            PieceWriter& out) const {
  auto flush = [&] {
    if (word.chars == 0) return;
    if (word.chars > model_.max_word_chars())
      out.push_word(model_.unk_id(), word.origins[0], word.last + 1);
    else
      model_.push_word(word.bytes, word.n, word.chars, word.origins, out);
    word.n = word.chars = 0;
  };
  word.n = word.chars = 0;
  const char* const start = p;
  const bool lowercase = normalizer_.lowercase;
  for (; p < end; ++index) {
    uint8_t byte = uint8_t(*p);
    if (byte < 0x80) {
      const AsciiClass type = ascii_class_[byte];
      if (type == AsciiClass::kOther) {
        ++p;
        continue;
      }
      if (type != AsciiClass::kWord) break;
      if (word.chars == 0 && p != start) return p;  // a new word, left to the faster loop
      word.append(uint32_t(lowercase && byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte), index);
      ++p;
      continue;
    }
    auto [point, length] = decode_inline(p, end);
    uint32_t entry = table_[point];
    switch (BertCharTable::action(entry)) {
      case CharAction::kKeep:
        if (point == kReplacement || end - p < 4)
          word.append(point, index);  // invalid bytes must not be copied
        else
          word.append(p, length, index);
        break;
      case CharAction::kReplace:
        word.append(BertCharTable::payload(entry), index);
        break;
      case CharAction::kExpand: {
        const uint32_t* sequence = table_.sequence(BertCharTable::payload(entry));
        for (uint32_t i = 1; i <= sequence[0]; ++i) word.append(sequence[i], index);
        break;
      }
      case CharAction::kHangul: {
        Mapped jamo = decompose_hangul(point);
        for (uint32_t i = 0; i < jamo.count; ++i) word.append(jamo.points[i], index);
        break;
      }
      case CharAction::kDrop:
        break;
      case CharAction::kSpace:
        flush();
        break;
      case CharAction::kPunct: {
        flush();
        if (out.full()) return end;
        uint32_t becomes = BertCharTable::payload(entry);
        char key[4 + kPadding];
        size_t n = encode_utf8(becomes ? becomes : point, key);
        out.push_word(model_.id_or_unk(key, n), index, index + 1);
        break;
      }
      case CharAction::kSlowPath:
        return nullptr;
    }
    if (out.full()) return end;
    p += length;
  }
  flush();
  return p;
}

void BertSegmenter::slow_path(std::string_view text, uint32_t first, bool skip_special,
                              PieceWriter& out) const {
  BertNormalized& normalized = out.buffers.bert;
  bert_normalize(text, first, normalizer_, normalized);
  const uint32_t* origins = normalized.origins.data();
  normalized_.split(normalized.text(), skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
    if (out.full()) return false;
    if (token) {
      out.push_word(token->id, origins[begin], origins[end - 1] + 1);
      return true;
    }
    const char *bytes = normalized.bytes.data(), *stop = bytes + end;
    size_t word = begin, chars = 0;
    auto flush = [&](size_t to) {
      if (word < to) model_.push_word(bytes + word, to - word, chars, origins + word, out);
      chars = 0;
    };
    for (size_t i = begin; i < end && !out.full();) {
      auto [point, length] = decode_utf8(bytes + i, stop);
      uint8_t f = flags(point);
      if (f & (kRawSpace | kPunct)) {
        flush(i);
        if (f & kPunct) model_.push_word(bytes + i, length, 1, origins + i, out);
        word = i + length;
      } else {
        ++chars;
      }
      i += length;
      if (i == end) flush(i);
    }
    return true;
  });
}

void BertSegmenter::tokenize(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const {
  const bool try_fast = normalizer_.clean_text && normalized_.empty();
  split_at_added_tokens(raw_, text, !special_tokens_in_text, 0, out,
                        [&](std::string_view part, uint32_t first) {
                          const PieceWriter::Mark mark = out.mark();
                          if (try_fast && fast_path(part, first, out)) return;
                          out.rewind(mark);
                          slow_path(part, first, !special_tokens_in_text, out);
                        });
}

void BertSegmenter::tokenize_slowly(std::string_view text, bool special_tokens_in_text,
                                    PieceWriter& out) const {
  split_at_added_tokens(
      raw_, text, !special_tokens_in_text, 0, out,
      [&](std::string_view part, uint32_t first) { slow_path(part, first, !special_tokens_in_text, out); });
}

}  // namespace bertie::text
