#pragma once
// Tokens that are found in the text before it is split into words: "[MASK]" and its like, and whatever a
// tokenizer.json adds. Leftmost first, then longest; matches do not overlap.
//
// Const after building; any number of threads may search.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/unicode.h"
#include "text/buffers.h"

namespace bertie::text {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  // not where a word goes on before or after
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces after it
  bool normalized = false;   // is found in normalised text; otherwise in the raw text
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // In order of precedence. `content` is what to look for, already normalised where that applies.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // Cuts `text` into pieces in order: visit(begin, end, token), token = nullptr for what lies between
  // matches. Special tokens stay part of the text if skip_special. visit returns false to stop.
  template <class Visit>
  void split(std::string_view text, bool skip_special, const Visit& visit) const {
    size_t done = 0;
    for (Match m; find(text, m.end, m);) {
      const AddedToken& t = *m.token;
      if ((skip_special && t.special) || (t.single_word && !stands_alone(text, m))) continue;
      size_t begin = t.lstrip ? std::max(left_of_spaces(text, m.begin), done) : m.begin;
      size_t end = t.rstrip ? right_of_spaces(text, m.end) : m.end;
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
  static bool stands_alone(std::string_view text, const Match& match);
  static size_t left_of_spaces(std::string_view text, size_t end);
  static size_t right_of_spaces(std::string_view text, size_t begin);

  std::vector<AddedToken> tokens_;       // by first byte, then longest first, then precedence
  std::array<uint32_t, 257> by_byte_{};  // tokens_[by_byte_[b] .. by_byte_[b+1]) begin with byte b
  int only_byte_ = -1;                   // the first byte of all tokens, if they share it
};

// Splits, pushes the added tokens as words of their own, and hands what lies between to between(piece,
// first): the code point at `text`'s beginning is number `first`.
template <class Between>
void split_counting(const AddedTokens& tokens, std::string_view text, bool skip_special, uint32_t first,
                    Pieces& out, const Between& between) {
  size_t counted = 0;
  uint32_t index = first;  // of the code point at `counted`
  auto index_at = [&](size_t place) {
    if (place < counted) counted = 0, index = first;  // a token that begins with spaces another one took
    index += uint32_t(count_points(text.substr(counted, place - counted)));
    counted = place;
    return index;
  };
  tokens.split(text, skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
    if (out.full()) return false;
    uint32_t at = index_at(begin);
    if (token)
      out.push(token->id, at, index_at(end)), ++out.word;
    else
      between(text.substr(begin, end - begin), at);
    return true;
  });
}

}  // namespace bertie::text
