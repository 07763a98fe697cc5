#include "text/steps/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode/unicode.h"

namespace bertie::text {

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens, bool normalized) {
  for (const AddedToken& t : tokens)
    if (t.normalized == normalized) tokens_.push_back(t);
  auto first = [](const AddedToken& t) { return uint8_t(t.content[0]); };
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](const AddedToken& a, const AddedToken& b) {
    return first(a) != first(b) ? first(a) < first(b) : a.content.size() > b.content.size();
  });
  for (const AddedToken& t : tokens_) ++by_byte_[first(t) + 1];
  for (size_t b = 0; b < 256; ++b) by_byte_[b + 1] += by_byte_[b];
  if (!tokens_.empty() && first(tokens_.front()) == first(tokens_.back()))
    only_byte_ = first(tokens_.front());
}

bool AddedTokenMatcher::find(std::string_view text, size_t from, Match& match) const {
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

bool AddedTokenMatcher::is_single_word(std::string_view text, const Match& match) {
  const char *p = text.data(), *begin = p + match.begin, *end = p + match.end, *text_end = p + text.size();
  if (match.begin > 0 &&
      (flags(decode_utf8(p + last_point(text.substr(0, match.begin)), begin).point) & kWordChar))
    return false;
  return end == text_end || !(flags(decode_utf8(end, text_end).point) & kWordChar);
}

}  // namespace bertie::text
