#include "train/data/sentences.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "text/unicode/unicode.h"

namespace bertie {
namespace {

using text::decode_utf8;

// A name follows, whatever its first letter: never the end of a sentence.
constexpr auto kTitles = std::to_array<std::string_view>(
    {"adm",   "brig", "capt", "cmdr",   "col",  "cpl", "dr",   "esq", "fr",  "gen", "gov",  "hon",
     "lieut", "lt",   "maj",  "messrs", "mlle", "mme", "mr",   "mrs", "ms",  "mt",  "pres", "prof",
     "pvt",   "rep",  "rev",  "sen",    "sgt",  "st",  "supt", "vs",  "viz", "cf",  "e.g",  "i.e"});
// A number follows: "No. 5", "pp. 3-4", "Fig. 2", "Jan. 9".
constexpr auto kBeforeNumbers =
    std::to_array<std::string_view>({"apr", "art",  "aug", "c",   "ca",   "ch",  "chap", "dec", "eq",  "feb",
                                     "fig", "figs", "jan", "jul", "jun",  "mar", "no",   "nos", "nov", "oct",
                                     "op",  "p",    "pp",  "sec", "sect", "sep", "sept", "vol", "vols"});
// May end a sentence or not: it does where a word follows that often begins one.
constexpr auto kAbbreviations = std::to_array<std::string_view>(
    {"al",  "approx", "assn", "ave", "blvd", "bros", "co",   "corp", "dept", "dist", "ed",  "eds",
     "est", "etc",    "ft",   "inc", "jr",   "ltd",  "ph.d", "rd",   "ret",  "sr",   "univ"});
constexpr auto kStarters = std::to_array<std::string_view>(
    {"A",       "After", "All",    "Although", "An",    "And",   "As",    "At",   "Before", "Both",
     "But",     "By",    "During", "Each",     "For",   "From",  "He",    "Her",  "His",    "How",
     "However", "I",     "If",     "In",       "It",    "Its",   "Many",  "Most", "My",     "No",
     "Not",     "On",    "One",    "Our",      "She",   "Since", "So",    "Some", "That",   "The",
     "Their",   "Then",  "There",  "These",    "They",  "This",  "Those", "To",   "Two",    "Under",
     "We",      "What",  "When",   "Where",    "While", "Who",   "Why",   "With", "Yet",    "You"});

template <size_t kCount>
bool is_in(const std::array<std::string_view, kCount>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) {
  return c < 0x80 ? (c | 32) >= 'a' && (c | 32) <= 'z' : text::char_kind(c) == text::CharKind::kLetter;
}
bool is_upper(uint32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : is_letter(c) && text::lower(c).points[0] != c;
}
// A letter that is its own lower case and not one of a script without cases: those lie beyond Greek,
// Cyrillic, Armenian and the Latin additions.
bool is_lower(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return (c < 0x590 || (c >= 0x1E00 && c < 0x2000)) && is_letter(c) && !is_upper(c);
}
bool is_space(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xA0 || c == 0x3000; }
bool is_stop(uint32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }
bool is_wide_stop(uint32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF61; }
bool closes(uint32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0x2019 || c == 0x201D ||
         c == 0xBB || c == 0x203A || c == 0x300D || c == 0x300F || c == 0xFF09;
}
bool opens(uint32_t c) {
  return c == '"' || c == '\'' || c == '(' || c == '[' || c == '{' || c == 0x2018 || c == 0x201C ||
         c == 0xAB || c == 0x2039 || c == '-' || c == 0x2013 || c == 0x2014 || c == 0xBF || c == 0xA1;
}

class Splitter {
 public:
  Splitter(std::string_view text, std::vector<Sentence>& out)
      : start_(text.data()), end_(start_ + text.size()), out_(out) {}

  void run() {
    const char *begin = skip_spaces(start_), *p = begin;
    while (p < end_) {
      const uint8_t byte = uint8_t(*p);
      if (byte < 0x80 && byte != '.' && byte != '!' && byte != '?') {
        ++p;
        continue;
      }
      const auto [point, length] = decode_utf8(p, end_);
      const char* const stop = p;
      p += length;
      if (!is_stop(point) && !is_wide_stop(point)) continue;
      bool full_stop_alone = point == '.', wide = is_wide_stop(point);
      while (p < end_) {  // the rest of the stops, then what closes
        const auto [next, n] = decode_utf8(p, end_);
        if (!is_stop(next) && !is_wide_stop(next)) break;
        full_stop_alone = false;
        wide = wide || is_wide_stop(next);
        p += n;
      }
      const char* after = p;
      while (after < end_) {
        const auto [next, n] = decode_utf8(after, end_);
        if (!closes(next)) break;
        after += n;
      }
      if (after == end_) break;
      const char* next = skip_spaces(after);
      if (next == end_) break;
      if (next == after && !wide) continue;  // 3.14, example.com, "..."word
      if (!wide && !may_begin(next)) continue;
      if (full_stop_alone && after == p && !ends_sentence(begin, stop, next)) continue;
      out_.push_back({size_t(begin - start_), size_t(after - start_)});
      begin = p = next;
    }
    const char* last = end_;
    while (last > begin && uint8_t(last[-1]) <= ' ' && is_space(uint8_t(last[-1]))) --last;
    if (last > begin) out_.push_back({size_t(begin - start_), size_t(last - start_)});
  }

 private:
  const char* skip_spaces(const char* p) const {
    while (p < end_) {
      const auto [point, length] = decode_utf8(p, end_);
      if (!is_space(point)) break;
      p += length;
    }
    return p;
  }

  const char* skip_openers(const char* p) const {
    while (p < end_) {
      const auto [point, length] = decode_utf8(p, end_);
      if (!opens(point) && !is_space(point)) break;
      p += length;
    }
    return p;
  }

  bool may_begin(const char* p) const {
    p = skip_openers(p);
    return p == end_ || !is_lower(decode_utf8(p, end_).point);
  }

  std::string_view word_at(const char* p) const {
    p = skip_openers(p);
    const char* to = p;
    while (to < end_ && is_letter(uint8_t(*to))) ++to;
    return {p, size_t(to - p)};
  }

  // Whether a full stop at `stop`, in a sentence from `begin`, ends it before what stands at `next`.
  bool ends_sentence(const char* begin, const char* stop, const char* next) const {
    const char* word = stop;  // back to the white space before it
    while (word > begin && uint8_t(word[-1]) > ' ') --word;
    while (word < stop) {
      const auto [point, length] = decode_utf8(word, stop);
      if (!opens(point)) break;
      word += length;
    }
    const size_t size = size_t(stop - word);
    if (size == 0) return true;
    const bool number_follows = is_digit(uint8_t(*skip_openers_or(next)));
    // "1. The" or "a. The" at the start counts what follows.
    if (word == begin || size_t(word - begin) <= 1) {
      if (std::all_of(word, stop, [](char c) { return is_digit(uint8_t(c)); })) return false;
    }
    const auto first = decode_utf8(word, stop);
    if (first.length == size && is_upper(first.point))  // an initial; "I" is a word more often
      return first.point == 'I' && word > begin;
    if (size > 12) return true;
    char lowered[12];
    bool inner_stop = false, letters = true;
    for (size_t i = 0; i < size; ++i) {
      const char c = word[i];
      lowered[i] = c >= 'A' && c <= 'Z' ? char(c | 32) : c;
      inner_stop = inner_stop || c == '.';
      letters = letters && (c == '.' || is_letter(uint8_t(c)));
    }
    const std::string_view lower(lowered, size);
    if (is_in(kTitles, lower)) return false;
    if (is_in(kBeforeNumbers, lower)) return !number_follows;
    if (is_in(kAbbreviations, lower) || (inner_stop && letters)) return is_in(kStarters, word_at(next));
    return true;
  }

  const char* skip_openers_or(const char* p) const {
    const char* q = skip_openers(p);
    return q < end_ ? q : p;
  }

  const char *start_, *end_;
  std::vector<Sentence>& out_;
};

}  // namespace

void split_sentences(std::string_view paragraph, std::vector<Sentence>& out) {
  out.clear();
  Splitter(paragraph, out).run();
}

}  // namespace bertie
