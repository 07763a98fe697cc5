#pragma once
// Answers as SQuAD's scripts compare them: what Python's lower(), \w and split() make of a text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::metrics {

// str.isspace(), which str.split() goes by: also U+001C to U+001F, that Unicode does not call white space.
bool is_python_space(uint32_t point);
// \w of Python's regular expressions: letters, numbers of all kinds and "_"; no marks.
bool is_python_word(uint32_t point);

// str.lower() of valid UTF-8: a capital sigma at the end of a word is ς.
std::u32string python_lower(std::string_view text);

// normalize_answer() of evaluate-v1.1.py and evaluate-v2.0.py, split at its spaces: small letters, without
// string.punctuation, without the words a, an and the.
std::vector<std::string> answer_words(std::string_view answer);

}  // namespace bertie::metrics
