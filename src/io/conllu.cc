#include "bertie/conllu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/quote.h"
#include "io/text_window.h"

namespace bertie {
namespace {

constexpr size_t kColumns = 10, kMaxLine = size_t{1} << 20, kMostWords = 100'000;

// "1-2" and "1.1": what is not a word of the tree. False where it is no such thing.
bool is_range_or_empty(std::string_view id) {
  const size_t middle = id.find_first_of("-.");
  size_t first = 0, second = 0;
  return middle != id.npos && parse_number(id.substr(0, middle), first) &&
         parse_number(id.substr(middle + 1), second) && (id[middle] == '.' ? second >= 1 : second > first);
}

class ConlluReader {
 public:
  explicit ConlluReader(const std::string& path) : window_(path) {}

  std::vector<ParsedSentence> all() {
    while (true) {
      const size_t end = window_.line_end(kMaxLine);
      if (end == std::string_view::npos)
        wrong(window_.line(), fmt::format("this line is longer than {} MB", kMaxLine >> 20));
      const std::string_view line = io::without_line_end(window_.text().substr(0, end));
      if (end == 0 || line.find_first_not_of(" \t\r") == line.npos)
        finish();
      else if (!line.starts_with('#'))
        add(line);
      if (end == 0) break;
      window_.take(end);
    }
    if (sentences_.empty())
      throw Error(fmt::format("{} has no sentences", window_.file().name()),
                  "a treebank in CoNLL-U, such as those of universaldependencies.org");
    return std::move(sentences_);
  }

 private:
  [[noreturn]] void wrong(size_t line, const std::string& what) const {
    throw Error(
        fmt::format("{}, line {}: {}", window_.file().name(), line, what),
        "CoNLL-U has ten columns with tabs between them, a word a line, numbered from 1, and an empty "
        "line after each sentence");
  }

  void add(std::string_view line) {
    if (line.find('\0') != line.npos) wrong(window_.line(), "there is a zero byte");
    std::array<std::string_view, kColumns> fields;
    size_t count = 0;
    for (size_t at = 0; at <= line.size(); ++count) {
      const size_t end = std::min(line.find('\t', at), line.size());
      if (count < kColumns) fields[count] = line.substr(at, end - at);
      at = end + 1;
    }
    if (count != kColumns)
      wrong(window_.line(), fmt::format("{} column{} instead of ten", count, count == 1 ? "" : "s"));
    const std::string_view id = fields[0];
    if (is_range_or_empty(id)) return;
    size_t number = 0;
    if (!parse_number(id, number) || number != sentence_.words.size() + 1)
      wrong(window_.line(), fmt::format("the word's number is {}, where {} was expected", io::quote(id),
                                        sentence_.words.size() + 1));
    if (number > kMostWords)
      wrong(window_.line(), fmt::format("a sentence of more than {} words", kMostWords));
    ParsedWord word{
        .form = std::string(fields[1]), .tag = std::string(fields[3]), .relation = std::string(fields[7])};
    if (word.form.empty()) wrong(window_.line(), "there is no word in the second column");
    if (!parse_number(fields[6], word.head))
      wrong(window_.line(),
            fmt::format("column seven is {}, and not the number of the word that it depends on",
                        io::quote(fields[6])));
    if (word.head == number) wrong(window_.line(), "the word depends on itself");
    if (word.relation.empty()) wrong(window_.line(), "there is no relation in column eight");
    if (sentence_.words.empty()) sentence_.line = window_.line();
    sentence_.words.push_back(std::move(word));
  }

  void finish() {
    const size_t count = sentence_.words.size();
    if (count == 0) return;
    for (size_t i = 0; i < count; ++i)
      if (sentence_.words[i].head > count)
        wrong(sentence_.line, fmt::format("word {} of this sentence depends on word {}, and there are {}",
                                          i + 1, sentence_.words[i].head, count));
    sentences_.push_back(std::move(sentence_));
    sentence_ = {};
  }

  io::TextWindow window_;
  ParsedSentence sentence_;
  std::vector<ParsedSentence> sentences_;
};

}  // namespace

std::vector<ParsedSentence> read_conllu(const std::string& path) { return ConlluReader(path).all(); }

}  // namespace bertie
