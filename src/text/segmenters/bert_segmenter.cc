#include "text/segmenters/bert_segmenter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

static_assert(std::endian::native == std::endian::little,
              "keys are cut out of the text as little-endian words");

enum Ascii : uint8_t { kWordByte, kSpaceByte, kPunctByte, kOtherByte };

// The next eight bytes, zeros past the end.
inline uint64_t load_text(const char* p, const char* end) {
  uint64_t bytes = 0;
  if (end - p >= 8) [[likely]]
    std::memcpy(&bytes, p, 8);
  else
    std::memcpy(&bytes, p, size_t(end - p));
  return bytes;
}

// How many of the eight bytes, from the first on, are ASCII letters or digits; and these in lower case
// (if `lower_bit` is 0x2020...; unchanged if 0), the others zero.
struct Cut {
  uint64_t bytes;
  unsigned count;
};
inline Cut cut_word(uint64_t x, uint64_t lower_bit) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  // Per byte without carries: adding 0x80 - c sets the high bit if the byte is at least c.
  uint64_t seven = x & ~kHigh, low = seven | 0x20 * kOnes;
  uint64_t letter = (low + (0x80 - 'a') * kOnes) & ~(low + (0x7F - 'z') * kOnes);
  uint64_t digit = (seven + (0x80 - '0') * kOnes) & ~(seven + (0x7F - '9') * kOnes);
  uint64_t stop = ~((letter | digit) & ~x) & kHigh;
  uint64_t lowered = x | ((letter & kHigh) >> 2 & lower_bit);
  if (stop == 0) return {lowered, 8};
  unsigned bits = unsigned(std::countr_zero(stop)) & ~7u;
  return {lowered & ((uint64_t{1} << bits) - 1), bits / 8};
}

// decode_utf8 with the common cases in line.
inline Decoded decode_inline(const char* p, const char* end) {
  uint8_t lead = uint8_t(*p);
  if (end - p >= 3) [[likely]] {
    uint32_t second = uint8_t(p[1]) ^ 0x80u, third = uint8_t(p[2]) ^ 0x80u;  // below 64 if continuations
    if (lead >= 0xC2 && lead < 0xE0 && second < 64) return {(lead & 0x1Fu) << 6 | second, 2};
    uint32_t point = (lead & 0x0Fu) << 12 | second << 6 | third;
    if ((lead & 0xF0) == 0xE0 && (second | third) < 64 && point >= 0x800 && (point & 0xF800) != 0xD800)
      return {point, 3};
  }
  return decode_utf8(p, end);
}

}  // namespace

// A word under way: its normalised bytes, and for each byte the code point of the text it came from.
// Past max_word_chars only the count goes on.
struct WordPiece::Word {
  static constexpr size_t kBytes = 4 * kMaxWordChars;
  char bytes[kBytes + kPadding];
  uint32_t origins[kBytes + 4];
  size_t n = 0, chars = 0;
  uint32_t last = 0;

  // Four bytes are copied whatever the length.
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

WordPiece::WordPiece(Vocabulary vocabulary, const WordPieceSettings& settings,
                     const std::vector<AddedToken>& added)
    : vocabulary_(std::move(vocabulary)), settings_(settings), table_(settings.normalizer) {
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& t : added) (t.normalized ? normalized : raw).push_back(t);
  raw_ = AddedTokens(std::move(raw));
  normalized_ = AddedTokens(std::move(normalized));

  for (uint32_t c = 0; c < 256; ++c) {
    ascii_[c] = kOtherByte;
    if (c >= 128) continue;
    Turn turn = CharTable::turn(table_[c]);
    if (turn == Turn::kSpace) ascii_[c] = kSpaceByte;
    if (turn == Turn::kPunct) ascii_[c] = kPunctByte;
    if (turn == Turn::kKeep || turn == Turn::kOne) ascii_[c] = kWordByte;
    char key[1 + kPadding] = {char(c)};
    int32_t id = vocabulary_.find(key, 1, false);
    ascii_id_[c] = id < 0 ? settings_.unk_id : id;
  }
}

template <class Place>
void WordPiece::push_pieces(const char* word, size_t n, const Place& place, Pieces& out) const {
  size_t mark = out.ids.size();
  for (size_t begin = 0; begin < n;) {
    bool continues = begin > 0;
    size_t length = 0;
    int32_t id = vocabulary_.find_longest(word + begin, n - begin, continues, length);
    if (id < 0) {  // one piece that does not match makes the whole word unknown
      out.cut(mark);
      out.push(settings_.unk_id, place(0), place(n - 1) + 1);
      break;
    }
    out.push(id, place(begin), place(begin + length - 1) + 1);
    begin += length;
  }
  ++out.word;
}

void WordPiece::push_word(const char* word, size_t n, size_t chars, const uint32_t* origins,
                          Pieces& out) const {
  if (chars > settings_.max_word_chars) {
    out.push(settings_.unk_id, origins[0], origins[n - 1] + 1), ++out.word;
  } else if (int32_t id = vocabulary_.find(word, n, false); id >= 0) {
    out.push(id, origins[0], origins[n - 1] + 1), ++out.word;
  } else {
    push_pieces(
        word, n, [&](size_t i) { return origins[i]; }, out);
  }
}

bool WordPiece::fast(std::string_view text, uint32_t index, Pieces& out) const {
  const char *p = text.data(), *const end = p + text.size();
  const uint64_t lower_bit = settings_.normalizer.lowercase ? 0x2020202020202020 : 0;
  Word word;
  while (p < end) {
    switch (ascii_[uint8_t(*p)]) {
      case kSpaceByte:
        ++p, ++index;
        continue;
      case kPunctByte:
        if (out.full()) return true;
        out.push(ascii_id_[uint8_t(*p)], index, index + 1);
        ++out.word, ++p, ++index;
        continue;
      case kOtherByte:
        if (out.full()) return true;
        if (!(p = mixed_word(p, end, index, word, out))) return false;
        continue;
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
    if (p + n < end && ascii_[uint8_t(p[n])] == kOtherByte) {
      if (!(p = mixed_word(p, end, index, word, out))) return false;
      continue;
    }
    uint32_t begin = index;
    p += n, index += uint32_t(n);
    if (n > settings_.max_word_chars) {
      out.push(settings_.unk_id, begin, index), ++out.word;
    } else if (int32_t id = n <= 16 ? vocabulary_.find_short(low.bytes, high.bytes, n)
                                    : vocabulary_.find(word.bytes, n, false);
               id >= 0) {
      out.push(id, begin, index), ++out.word;
    } else {
      push_pieces(
          word.bytes, n, [begin](size_t i) { return begin + uint32_t(i); }, out);
    }
  }
  return true;
}

// From p to the end of the word there, and on as long as the text is not ASCII. Returns where it stopped,
// nullptr if the text needs the thorough road.
const char* WordPiece::mixed_word(const char* p, const char* end, uint32_t& index, Word& word,
                                  Pieces& out) const {
  auto flush = [&] {
    if (word.chars == 0) return;
    if (word.chars > settings_.max_word_chars)
      out.push(settings_.unk_id, word.origins[0], word.last + 1), ++out.word;
    else
      push_word(word.bytes, word.n, word.chars, word.origins, out);
    word.n = word.chars = 0;
  };
  word.n = word.chars = 0;
  const char* const start = p;
  const bool lowercase = settings_.normalizer.lowercase;
  for (; p < end; ++index) {
    uint8_t byte = uint8_t(*p);
    if (byte < 0x80) {
      Ascii what = Ascii(ascii_[byte]);
      if (what == kOtherByte) {
        ++p;
        continue;
      }
      if (what != kWordByte) break;
      if (word.chars == 0 && p != start) return p;  // a new word: the fast loop takes it
      word.append(uint32_t(lowercase && byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte), index);
      ++p;
      continue;
    }
    auto [point, length] = decode_inline(p, end);
    uint32_t entry = table_[point];
    switch (CharTable::turn(entry)) {
      case Turn::kKeep:
        if (point == kReplacement || end - p < 4)
          word.append(point, index);  // bad bytes are not copied
        else
          word.append(p, length, index);
        break;
      case Turn::kOne:
        word.append(CharTable::payload(entry), index);
        break;
      case Turn::kMany: {
        const uint32_t* sequence = table_.sequence(CharTable::payload(entry));
        for (uint32_t i = 1; i <= sequence[0]; ++i) word.append(sequence[i], index);
        break;
      }
      case Turn::kHangul: {
        Mapped jamo = decompose_hangul(point);
        for (uint32_t i = 0; i < jamo.count; ++i) word.append(jamo.points[i], index);
        break;
      }
      case Turn::kDrop:
        break;
      case Turn::kSpace:
        flush();
        break;
      case Turn::kPunct: {
        flush();
        if (out.full()) return end;
        uint32_t becomes = CharTable::payload(entry);
        char key[4 + kPadding];
        size_t n = encode_utf8(becomes ? becomes : point, key);
        int32_t id = vocabulary_.find(key, n, false);
        out.push(id < 0 ? settings_.unk_id : id, index, index + 1), ++out.word;
        break;
      }
      case Turn::kThorough:
        return nullptr;
    }
    if (out.full()) return end;
    p += length;
  }
  flush();
  return p;
}

void WordPiece::thorough(std::string_view text, uint32_t first, bool skip_special, Pieces& out) const {
  Normalized& normalized = out.workspace.bert;
  normalize(text, first, settings_.normalizer, normalized);
  const uint32_t* origins = normalized.origins.data();
  normalized_.split(normalized.text(), skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
    if (out.full()) return false;
    if (token) {
      out.push(token->id, origins[begin], origins[end - 1] + 1), ++out.word;
      return true;
    }
    const char *bytes = normalized.bytes.data(), *stop = bytes + end;
    size_t word = begin, chars = 0;
    auto flush = [&](size_t to) {
      if (word < to) push_word(bytes + word, to - word, chars, origins + word, out);
      chars = 0;
    };
    for (size_t i = begin; i < end && !out.full();) {
      auto [point, length] = decode_utf8(bytes + i, stop);
      uint8_t f = flags(point);
      if (f & (kRawSpace | kPunct)) {
        flush(i);
        if (f & kPunct) push_word(bytes + i, length, 1, origins + i, out);
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

void WordPiece::tokenize(std::string_view text, bool special_tokens_in_text, Pieces& out) const {
  bool try_fast = settings_.normalizer.clean_text && normalized_.empty();
  split_counting(raw_, text, !special_tokens_in_text, 0, out, [&](std::string_view piece, uint32_t first) {
    size_t mark = out.ids.size();
    int32_t word = out.word;
    if (try_fast && fast(piece, first, out)) return;
    out.cut(mark);
    out.word = word;
    thorough(piece, first, !special_tokens_in_text, out);
  });
}

void WordPiece::tokenize_thoroughly(std::string_view text, bool special_tokens_in_text, Pieces& out) const {
  split_counting(raw_, text, !special_tokens_in_text, 0, out, [&](std::string_view piece, uint32_t first) {
    thorough(piece, first, !special_tokens_in_text, out);
  });
}

}  // namespace bertie::text
