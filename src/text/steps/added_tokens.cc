#include "text/steps/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode/unicode.h"

namespace bertie::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  auto first = [](const AddedToken& t) { return uint8_t(t.content[0]); };
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](const AddedToken& a, const AddedToken& b) {
    return first(a) != first(b) ? first(a) < first(b) : a.content.size() > b.content.size();
  });
  for (const AddedToken& t : tokens_) ++by_byte_[first(t) + 1];
  for (size_t b = 0; b < 256; ++b) by_byte_[b + 1] += by_byte_[b];
  if (!tokens_.empty() && first(tokens_.front()) == first(tokens_.back()))
    only_byte_ = first(tokens_.front());
}

bool AddedTokens::find(std::string_view text, size_t from, Match& match) const {
  if (tokens_.empty()) return false;
  for (size_t i = from; i < text.size(); ++i) {
    if (only_byte_ >= 0) {
      const void* hit = std::memchr(text.data() + i, only_byte_, text.size() - i);
      if (!hit) return false;
      i = size_t(static_cast<const char*>(hit) - text.data());
    }
    uint8_t byte = uint8_t(text[i]);
    for (uint32_t t = by_byte_[byte]; t < by_byte_[byte + 1]; ++t)
      if (text.substr(i).starts_with(tokens_[t].content)) {
        match = {i, i + tokens_[t].content.size(), &tokens_[t]};
        return true;
      }
  }
  return false;
}

bool AddedTokens::stands_alone(std::string_view text, const Match& match) {
  if (match.begin > 0) {
    size_t p = match.begin - 1;
    while (p > 0 && is_continuation(text[p])) --p;
    if (flags(decode_utf8(text.data() + p, text.data() + match.begin).point) & kWordChar) return false;
  }
  if (match.end == text.size()) return true;
  return !(flags(decode_utf8(text.data() + match.end, text.data() + text.size()).point) & kWordChar);
}

size_t AddedTokens::left_of_spaces(std::string_view text, size_t end) {
  while (end > 0) {
    size_t p = end - 1;
    while (p > 0 && is_continuation(text[p])) --p;
    if (!(flags(decode_utf8(text.data() + p, text.data() + end).point) & kRawSpace)) break;
    end = p;
  }
  return end;
}

size_t AddedTokens::right_of_spaces(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    auto [point, length] = decode_utf8(text.data() + begin, text.data() + text.size());
    if (!(flags(point) & kRawSpace)) break;
    begin += length;
  }
  return begin;
}

}  // namespace bertie::text
