#pragma once
// Added tokens: "[MASK]" and others that are found in a text before it is split into words.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/buffers.h"
#include "text/unicode/unicode.h"

namespace bertie::text {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  // only where no word character is next to it
  bool lstrip = false;       // takes the whitespace before it
  bool rstrip = false;       // takes the whitespace after it
  bool normalized = false;   // is matched in normalized text, else in the raw text
  bool special = false;
};

// Finds added tokens: the leftmost first, then the longest; matches do not overlap.
// Const after building; any number of threads may search.
class AddedTokenMatcher {
 public:
  // Of `tokens`, in order of precedence, those whose `normalized` is as given. `content` is the text to
  // match, normalized already if need be.
  AddedTokenMatcher(const std::vector<AddedToken>& tokens, bool normalized);
  bool empty() const { return tokens_.empty(); }

  // Cuts `text` into parts in order: visit(begin, end, token), where token is nullptr for text between
  // matches. With skip_special, special tokens are not matched. visit returns false to stop.
  template <class Visit>
  void split(std::string_view text, bool skip_special, const Visit& visit) const {
    size_t done = 0;
    for (Match m; find(text, m.end, m);) {
      const AddedToken& t = *m.token;
      if ((skip_special && t.special) || (t.single_word && !is_single_word(text, m))) continue;
      size_t begin =
          t.lstrip ? std::max(m.begin - trailing_whitespace(text.substr(0, m.begin)), done) : m.begin;
      size_t end = t.rstrip ? m.end + leading_whitespace(text.substr(m.end)) : m.end;
      if (done < begin && !visit(done, begin, static_cast<const AddedToken*>(nullptr))) return;
      if (!visit(begin, end, &t)) return;
      done = end;
    }
    if (done < text.size()) visit(done, text.size(), static_cast<const AddedToken*>(nullptr));
  }

 private:
  struct Match {
    size_t begin = 0, end = 0;
    const AddedToken* token = nullptr;
  };
  bool find(std::string_view text, size_t from, Match& match) const;
  static bool is_single_word(std::string_view text, const Match& match);

  std::vector<AddedToken> tokens_;       // by first byte, then longest first, then precedence
  std::array<uint32_t, 257> by_byte_{};  // tokens_[by_byte_[b] .. by_byte_[b+1]) begin with byte b
  int only_byte_ = -1;                   // the first byte of all tokens, if they share it
};

// Splits `text`, whose first code point has index `first`. Pushes the added tokens as words, and calls
// between(part, index of its first code point) for the text between them.
template <class Between>
void split_at_added_tokens(const AddedTokenMatcher& tokens, std::string_view text, bool skip_special,
                           uint32_t first, PieceWriter& out, const Between& between) {
  size_t counted = 0;
  uint32_t index = first;  // of the code point at byte `counted`
  auto index_at = [&](size_t byte) {
    if (byte < counted) counted = 0, index = first;  // lstrip reaches into whitespace that rstrip took
    index += uint32_t(count_points(text.substr(counted, byte - counted)));
    counted = byte;
    return index;
  };
  tokens.split(text, skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
    if (out.full()) return false;
    uint32_t at = index_at(begin);
    if (token)
      out.push_word(token->id, at, index_at(end));
    else
      between(text.substr(begin, end - begin), at);
    return true;
  });
}

}  // namespace bertie::text
