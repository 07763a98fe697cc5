#include "text/segmenters/byte_level_fast_path.h"

#include <array>
#include <bit>
#include <cstring>

#include "text/steps/byte_level.h"
#include "text/steps/gpt2_pattern.h"

namespace bertie::text {
namespace {

class ByteLevelFastPath : public FastPath {
 public:
  ByteLevelFastPath(const Bpe& model, const ByteLevelSettings& settings,
                    const std::array<int32_t, 256>& byte_ids)
      : model_(model), settings_(settings), byte_ids_(byte_ids), words_("byte-level words") {
    // A word that has the bytes of a token becomes that token only if merging its bytes gives it.
    const Vocabulary& v = model.vocabulary();
    words_.reserve(v.size(), 8 * v.size());
    Buffers buffers;
    std::string bytes;
    for (size_t id = 0; id < v.size(); ++id)
      if (v.has(id) && v.in_model(id) && byte_level_bytes(v.token(id), bytes) && !bytes.empty() &&
          (model.settings().ignore_merges || merges_to(bytes, int32_t(id), buffers)))
        words_.add_unchecked(bytes, id);
    words_.seal("");
  }

  bool tokenize(std::string_view text, uint32_t first, PieceWriter& out) const override {
    uint32_t added = 0;  // code points added before the text
    if (settings_.add_prefix_space && !text.starts_with(' ')) {
      std::string& copy = out.buffers.spare.bytes;
      (copy = ' ') += text;
      text = copy, added = 1;
    }
    const Gpt2Pattern& pattern = Gpt2Pattern::get();
    const char *p = text.data(), *const end = p + text.size();
    for (uint32_t point = 0; p < end;) {
      if (out.full()) return true;
      const char* q = settings_.use_regex ? pattern.end_of_match(p, end) : end;
      point = push_word({p, size_t(q - p)}, end, {first, added, point}, out);
      ++out.word;
      p = q;
    }
    return true;
  }

 private:
  // Turns indices into the text with `added` code points before it into offsets. The text itself begins at
  // `first`; the word at hand begins at index `point`.
  struct Position {
    uint32_t first, added, point;
    uint32_t begin(uint32_t at) const { return first + (at > added ? at - added : 0); }
    uint32_t end(uint32_t at) const { return begin(at - 1) + 1; }
  };

  // Pushes the pieces of a word of a text that ends at `end`. Returns the index of the code point after the
  // word.
  uint32_t push_word(std::string_view word, const char* end, Position position, PieceWriter& out) const {
    uint32_t points = 0;
    for (char c : word) points += !is_continuation(c);
    const uint32_t after = position.point + points;
    if (int32_t id = find(word, end, out.buffers); id >= 0) {
      out.push(id, position.begin(position.point), position.end(after));
      return after;
    }
    Symbol on_stack[kOnStack], *symbols = on_stack;
    if (word.size() > kOnStack) out.buffers.symbols.resize(word.size()), symbols = out.buffers.symbols.data();
    for (size_t i = 0; i < word.size(); ++i) symbols[i] = {byte_ids_[uint8_t(word[i])], 1};
    size_t count = model_.merge(symbols, word.size(), out.buffers.packed);
    uint32_t next = position.point;  // index after the code points that have begun
    const char* p = word.data();
    for (size_t i = 0; i < count; ++i) {
      uint32_t begin = is_continuation(*p) ? next - 1 : next;
      for (const char* stop = p + symbols[i].length; p < stop; ++p) next += !is_continuation(*p);
      out.push(symbols[i].id, position.begin(begin), position.end(next));
    }
    return after;
  }

  int32_t find(std::string_view word, const char* end, Buffers& buffers) const {
    const char* p = word.data();
    size_t n = word.size();
    if (size_t(end - p) >= n + kPadding) return words_.find(p, n, false);
    if (n <= 16) {
      uint64_t halves[2] = {0, 0};
      std::memcpy(halves, p, n);
      return words_.find_short(halves[0], halves[1], n);
    }
    if (n > kMaxTokenBytes) return -1;
    (buffers.word_copy = word).append(kPadding, '\0');
    return words_.find(buffers.word_copy.data(), n, false);
  }

  bool merges_to(std::string_view bytes, int32_t id, Buffers& buffers) const {
    buffers.symbols.clear();
    for (char c : bytes) buffers.symbols.push_back({byte_ids_[uint8_t(c)], 1});
    return model_.merge(buffers.symbols.data(), bytes.size(), buffers.packed) == 1 &&
           buffers.symbols[0].id == id;
  }

  static constexpr size_t kOnStack = 64;
  const Bpe& model_;
  ByteLevelSettings settings_;
  std::array<int32_t, 256> byte_ids_;
  Vocabulary words_;  // tokens by their bytes
};

}  // namespace

std::unique_ptr<const FastPath> make_byte_level_fast_path(const Bpe& model,
                                                          const ByteLevelSettings& settings) {
  static_assert(std::endian::native == std::endian::little);
  if (!model.settings().prefix.empty() || !model.settings().suffix.empty()) return nullptr;
  std::array<int32_t, 256> byte_ids;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    char utf8[4];
    std::string_view token(utf8, encode_utf8(byte_level_point(uint8_t(byte)), utf8));
    byte_ids[byte] = model.vocabulary().id(token);
    if (byte_ids[byte] < 0) return nullptr;
  }
  return std::make_unique<ByteLevelFastPath>(model, settings, byte_ids);
}

}  // namespace bertie::text
