#include "train/metrics/squad_text.h"

#include <algorithm>

#include "text/unicode/unicode.h"

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

// Unicode's Case_Ignorable, as far as it is found next to Greek letters: marks, format characters, and the
// signs that stand within words.
bool is_case_ignorable(uint32_t point) {
  constexpr std::u32string_view kWithinWords = U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u2018\u2019\u2024\u2027";
  return (text::flags(point) & text::kMark) != 0 || kWithinWords.find(char32_t(point)) != kWithinWords.npos ||
         (point >= 0x2B0 && point <= 0x36F) || point == 0x37A || point == 0x384 || point == 0x385 ||
         point == 0x387 || (point >= 0x200B && point <= 0x200F) || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x2064);
}

// Letters of scripts with capitals: Latin, Greek, Cyrillic and the like. Others have no case.
bool is_cased(uint32_t point) {
  if (text::char_kind(point) != text::CharKind::kLetter) return false;
  const text::Mapped low = text::lower(point);
  if (low.count != 1 || low.points[0] != point) return true;
  return point < 0x588 ? !(point == 0x1BB || (point >= 0x1C0 && point <= 0x1C3) || point == 0x294)
                       : (point >= 0x10A0 && point <= 0x10FF) || (point >= 0x13A0 && point <= 0x13FF) ||
                             (point >= 0x1C80 && point <= 0x1CBF) || (point >= 0x1D00 && point <= 0x1FFF) ||
                             (point >= 0x2C00 && point <= 0x2D2F) || (point >= 0xA640 && point <= 0xA69D) ||
                             (point >= 0xAB30 && point <= 0xABBF) || (point >= 0xFB00 && point <= 0xFB17) ||
                             (point >= 0xFF41 && point <= 0xFF5A) || (point >= 0x10428 && point <= 0x1044F);
}

// A sigma ends a word if a letter with case stands before it and none after it, whatever is ignorable between.
bool ends_word(std::u32string_view text, size_t at) {
  size_t before = at, after = at + 1;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return before > 0 && is_cased(text[before - 1]) && !(after < text.size() && is_cased(text[after]));
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
