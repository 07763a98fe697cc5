#include "train/metrics/squad_text.h"

#include <algorithm>

#include "text/unicode/unicode.h"
#include "train/metrics/case_tables.h"

namespace bertie::metrics {
namespace {

constexpr uint32_t kCapitalSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2;

bool is_ascii_punctuation(uint32_t point) {
  return (point >= '!' && point <= '/') || (point >= ':' && point <= '@') || (point >= '[' && point <= '`') ||
         (point >= '{' && point <= '~');
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  text::for_each_point(text, [&](uint32_t point) { out.push_back(char32_t(point)); });
  return out;
}

// A sigma ends a word if a letter with case stands before it and none after it, whatever is ignorable
// between.
bool ends_word(std::u32string_view text, size_t at) {
  size_t before = at, after = at + 1;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return before > 0 && has_case(text[before - 1]) && !(after < text.size() && has_case(text[after]));
}

bool is_article(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

}  // namespace

bool is_python_space(uint32_t point) {
  return (point >= 0x1C && point <= 0x1F) || text::is_whitespace(point);
}

bool is_python_word(uint32_t point) {
  if (point == '_') return true;
  const text::CharKind kind = text::char_kind(point);
  return kind == text::CharKind::kLetter || kind == text::CharKind::kNumber;
}

std::u32string python_lower(std::string_view text) {
  const std::u32string points = code_points(text);
  std::u32string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i] == kCapitalSigma) {
      out.push_back(ends_word(points, i) ? kFinalSigma : kSmallSigma);
      continue;
    }
    const text::Mapped low = text::lower(points[i]);
    for (uint32_t k = 0; k < low.count; ++k) out.push_back(char32_t(low.points[k]));
  }
  return out;
}

std::vector<std::string> answer_words(std::string_view answer) {
  std::u32string points = python_lower(answer);
  std::erase_if(points, is_ascii_punctuation);
  std::vector<std::string> words;
  std::string word;
  const auto finish_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (size_t i = 0, end; i < points.size(); i = end) {
    end = i + 1;
    if (is_python_space(points[i])) {
      finish_word();
      continue;
    }
    if (is_python_word(points[i]))
      while (end < points.size() && is_python_word(points[end])) ++end;
    const auto run = std::u32string_view(points).substr(i, end - i);
    if (is_article(run)) {
      finish_word();  // a space takes its place
      continue;
    }
    for (const char32_t point : run) {
      char bytes[4];
      word.append(bytes, text::encode_utf8(point, bytes));
    }
  }
  finish_word();
  return words;
}

}  // namespace bertie::metrics
