#pragma once
// What must hold for any tokenizer that loaded and any text: offsets inside the text, ids inside the
// vocabulary.
#include <cstdlib>
#include <string_view>

#include "bertie/tokenizer.h"
#include "text/unicode/unicode.h"

namespace bertie {

// Fractions, accents, ligatures, Chinese, an emoji of several points, spaces of every kind, broken UTF-8.
inline constexpr std::string_view kOddText =
    "A \xC2\xBD e\xCC\x81\xE3\x8D\xBF\xEF\xAC\x81 [MASK] <mask> don't 3.14\t\xE4\xB8\xAD\xE6\x96\x87 "
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\xC2\xA0\r\n  <s></s> \xFF\xE4 unaffable##a";

inline void check_tokenizer(const Tokenizer& tokenizer, std::string_view text) {
  const size_t points = text::count_points(text);
  for (const EncodeOptions& options :
       {EncodeOptions{}, EncodeOptions{.max_length = 9, .special_tokens_in_text = false}}) {
    Encoding e = tokenizer.encode(text, options);
    for (size_t i = 0; i < e.size(); ++i) {
      if (e.offsets[i].begin > e.offsets[i].end || e.offsets[i].end > points) std::abort();
      if (size_t(e.ids[i]) >= tokenizer.vocab_size()) std::abort();
    }
    tokenizer.decode(e.ids, false);
  }
  // Every window of the first with every window of the second: of long texts far too many to look at.
  const std::string_view start = text.substr(0, 100);
  tokenizer.encode_windows(start, start, {.max_length = 12, .stride = 1});
  tokenizer.encode_windows(text, {.max_length = 40, .stride = 3});
}

}  // namespace bertie
