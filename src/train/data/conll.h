#pragma once
// Sentences in columns, a word a line, an empty line after each sentence, as CoNLL's shared tasks have them:
// the word first and its tag last, columns with white space between them; lines that begin with -DOCSTART- go
// between documents, and lines that begin with # before a sentence are comments where they have other columns
// than its words. A first line such as "word tag" names the columns. CoNLL-U is recognized by its ten
// columns: the word is the second, its tag the fourth.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "io/text_window.h"

namespace bertie {

struct ConllFormat {
  bool tabs = false;       // between columns; otherwise any white space
  bool universal = false;  // CoNLL-U
  bool comments = false;   // a line before a sentence that begins with # is not a word of it
  size_t columns = 0;
  std::vector<std::string> names = {};  // of them, where the first line that is no comment says them
};

// Whether this is how a file of sentences in columns begins: for files that may be plain text too, so that
// every line must have as many columns as the others, and a tag such as "O" or "B-LOC" last.
bool looks_like_conll(std::string_view sample);

struct ConllSentence {
  std::vector<std::string> words, tags;  // tags are empty where there is but one column
  std::vector<size_t> lines = {};        // of the words
  size_t line = 0;                       // of the first word, or of the problem
  std::optional<Error> problem = {};
};

class ConllReader {
 public:
  // Columns by number from 1, or by the names of a header; empty: the usual ones. Throws Error with field
  // "text" or "label".
  ConllReader(std::unique_ptr<io::TextWindow> window, const std::string& word_column,
              const std::string& tag_column);

  bool next(ConllSentence& sentence);  // false at the end
  bool has_tags() const { return tag_ != word_; }
  std::string describe() const;  // "CoNLL columns 1 and 4"
  const io::InputFile& file() const { return window_->file(); }

 private:
  void read_word(std::string_view line, ConllSentence& sentence);

  std::unique_ptr<io::TextWindow> window_;
  ConllFormat format_;
  size_t word_ = 0, tag_ = 0;  // from 0
  bool before_header_ = false;
  std::vector<std::string_view> fields_;
};

}  // namespace bertie
