#include "train/baselines/words.h"

#include "text/unicode/unicode.h"
#include "train/metrics/squad_text.h"

namespace bertie::baseline {
namespace {

void append_point(uint32_t point, std::string& to) {
  char bytes[4];
  to.append(bytes, text::encode_utf8(point, bytes));
}

// Calls word(text, code points) and sign(text) for what a text has in its order.
template <class Word, class Sign>
void visit_words(std::string_view text, const Word& on_word, const Sign& on_sign) {
  std::string word;
  size_t points = 0;
  const auto finish = [&] {
    if (points > 0) on_word(word, points);
    word.clear(), points = 0;
  };
  for (const char32_t point : metrics::python_lower(text)) {
    if (metrics::is_python_word(point)) {
      append_point(point, word), ++points;
      continue;
    }
    finish();
    if (metrics::is_python_space(point)) continue;
    std::string sign;
    append_point(point, sign);
    on_sign(sign);
  }
  finish();
}

int32_t kind_of_unknown(const std::string& word) {
  if (word.empty()) return 0;
  const uint32_t first = text::decode_utf8(word.data(), word.data() + word.size()).point;
  const text::CharKind kind = text::char_kind(first);
  if (kind == text::CharKind::kNumber) return 2;
  if (kind != text::CharKind::kLetter) return 3;
  const text::Mapped low = text::lower(first);
  return low.count == 1 && low.points[0] == first ? 0 : 1;
}

}  // namespace

std::vector<std::string> long_words(std::string_view text) {
  std::vector<std::string> out;
  visit_words(
      text,
      [&](const std::string& word, size_t points) {
        if (points >= 2) out.push_back(word);
      },
      [](const std::string&) {});
  return out;
}

std::vector<std::string> words_and_signs(std::string_view text) {
  std::vector<std::string> out;
  visit_words(
      text, [&](const std::string& word, size_t) { out.push_back(word); },
      [&](const std::string& sign) { out.push_back(sign); });
  return out;
}

Vocabulary::Vocabulary(const std::vector<std::vector<std::string>>& texts) {
  for (const std::vector<std::string>& text : texts)
    for (const std::string& word : text) ++numbers_[word];
  std::erase_if(numbers_, [](const auto& word) { return word.second < 2; });
  int32_t next = kUnknown;
  for (auto& [word, number] : numbers_) number = next++;
}

int32_t Vocabulary::number(const std::string& word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kind_of_unknown(word) : found->second;
}

std::vector<int32_t> Vocabulary::numbers(const std::vector<std::string>& words) const {
  std::vector<int32_t> out;
  for (const std::string& word : words) out.push_back(number(word));
  return out;
}

}  // namespace bertie::baseline
