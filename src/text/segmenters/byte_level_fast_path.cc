#include "text/segmenters/byte_level_fast_path.h"

#include <array>
#include <bit>
#include <cstring>

#include "text/steps/byte_level.h"
#include "text/steps/gpt2_pattern.h"

namespace bertie::text {
namespace {

class ByteLevelRoad : public Shortcut {
 public:
  ByteLevelRoad(const Bpe& model, const ByteLevelSettings& settings, const std::array<int32_t, 256>& byte_ids)
      : model_(model), settings_(settings), byte_ids_(byte_ids), words_("byte-level words") {
    // A word that is a token's bytes is that token only if its merges lead there.
    const Vocabulary& v = model.vocabulary();
    words_.reserve(v.size(), 8 * v.size());
    Workspace w;
    std::string bytes;
    for (size_t id = 0; id < v.size(); ++id)
      if (v.has(id) && v.in_model(id) && byte_level_bytes(v.token(id), bytes) && !bytes.empty() &&
          (model.settings().ignore_merges || leads_to(bytes, int32_t(id), w)))
        words_.add_sparse(bytes, id);
    words_.seal("");
  }

  bool tokenize(std::string_view text, uint32_t first, Pieces& out) const override {
    uint32_t shift = 0;  // code points put before the text
    if (settings_.add_prefix_space && !text.starts_with(' ')) {
      std::string& copy = out.workspace.spare.bytes;
      (copy = ' ') += text;
      text = copy, shift = 1;
    }
    const Gpt2Words& words = Gpt2Words::get();
    const char *p = text.data(), *const end = p + text.size();
    for (uint32_t point = 0; p < end;) {
      if (out.full()) return true;
      const char* q = settings_.use_regex ? words.end_of_word(p, end) : end;
      point = push_word({p, size_t(q - p)}, end, {first, shift, point}, out);
      ++out.word;
      p = q;
    }
    return true;
  }

 private:
  // Where a word lies: code point `point` of text before whose beginning (number `first`) `shift` were put.
  struct Place {
    uint32_t first, shift, point;
    uint32_t begin(uint32_t at) const { return first + (at > shift ? at - shift : 0); }
    uint32_t end(uint32_t at) const { return begin(at - 1) + 1; }
  };

  // Returns the number of the code point after the word.
  uint32_t push_word(std::string_view word, const char* end, Place place, Pieces& out) const {
    uint32_t points = 0;
    for (char c : word) points += !is_continuation(c);
    const uint32_t after = place.point + points;
    if (int32_t id = find(word, end, out.workspace); id >= 0) {
      out.push(id, place.begin(place.point), place.end(after));
      return after;
    }
    Symbol few[kFew], *symbols = few;
    if (word.size() > kFew) out.workspace.symbols.resize(word.size()), symbols = out.workspace.symbols.data();
    for (size_t i = 0; i < word.size(); ++i) symbols[i] = {byte_ids_[uint8_t(word[i])], 1};
    size_t count = model_.merge(symbols, word.size(), out.workspace.numbers);
    uint32_t seen = place.point;  // code points that have begun
    const char* p = word.data();
    for (size_t i = 0; i < count; ++i) {
      uint32_t begin = is_continuation(*p) ? seen - 1 : seen;
      for (const char* stop = p + symbols[i].length; p < stop; ++p) seen += !is_continuation(*p);
      out.push(symbols[i].id, place.begin(begin), place.end(seen));
    }
    return after;
  }

  int32_t find(std::string_view word, const char* end, Workspace& w) const {
    const char* p = word.data();
    size_t n = word.size();
    if (size_t(end - p) >= n + kPadding) return words_.find(p, n, false);
    if (n <= 16) {
      uint64_t halves[2] = {0, 0};
      std::memcpy(halves, p, n);
      return words_.find_short(halves[0], halves[1], n);
    }
    if (n > kMaxTokenBytes) return -1;
    (w.tail = word).append(kPadding, '\0');
    return words_.find(w.tail.data(), n, false);
  }

  bool leads_to(std::string_view bytes, int32_t id, Workspace& w) const {
    w.symbols.clear();
    for (char c : bytes) w.symbols.push_back({byte_ids_[uint8_t(c)], 1});
    return model_.merge(w.symbols.data(), bytes.size(), w.numbers) == 1 && w.symbols[0].id == id;
  }

  static constexpr size_t kFew = 64;
  const Bpe& model_;
  ByteLevelSettings settings_;
  std::array<int32_t, 256> byte_ids_;
  Vocabulary words_;  // by the bytes they stand for
};

}  // namespace

std::unique_ptr<const Shortcut> byte_level_road(const Bpe& model, const ByteLevelSettings& settings) {
  static_assert(std::endian::native == std::endian::little);
  if (!model.settings().prefix.empty() || !model.settings().suffix.empty()) return nullptr;
  std::array<int32_t, 256> byte_ids;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    char utf8[4];
    std::string_view token(utf8, encode_utf8(byte_level_point(uint8_t(byte)), utf8));
    byte_ids[byte] = model.vocabulary().id(token);
    if (byte_ids[byte] < 0) return nullptr;
  }
  return std::make_unique<ByteLevelRoad>(model, settings, byte_ids);
}

}  // namespace bertie::text
