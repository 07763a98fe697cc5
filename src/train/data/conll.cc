#include "train/data/conll.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "io/quote.h"
#include "io/table.h"
#include "train/data/columns.h"
#include "train/data/iob.h"

namespace bertie {
namespace {

constexpr std::string_view kDocument = "-DOCSTART-";

bool is_column_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_empty_line(std::string_view line) { return std::ranges::all_of(line, is_column_space); }

void split_columns(std::string_view line, bool tabs, std::vector<std::string_view>& fields) {
  fields.clear();
  while (!tabs && !line.empty() && is_column_space(line.back())) line.remove_suffix(1);
  for (size_t at = 0; at <= line.size();) {
    if (!tabs)
      while (at < line.size() && is_column_space(line[at])) ++at;
    const auto separates = [&](char c) { return tabs ? c == '\t' : is_column_space(c); };
    const auto end = size_t(std::find_if(line.begin() + at, line.end(), separates) - line.begin());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
}

bool names_columns(const std::vector<std::string_view>& fields) {
  return fields.size() > 1 && is_usual_tag_column(fields.back()) &&
         std::any_of(fields.begin(), fields.end() - 1, is_usual_word_column);
}

// Calls visit(line) for the lines of a sample that are whole.
template <class Visit>
void for_each_line(std::string_view sample, bool ended, const Visit& visit) {
  while (!sample.empty()) {
    const size_t end = sample.find('\n');
    if (end == sample.npos && !ended) return;
    visit(io::without_line_end(sample.substr(0, std::min(end, sample.size() - 1) + 1)));
    sample.remove_prefix(std::min(end, sample.size() - 1) + 1);
  }
}

// Lines that begin with # are words (a tweet's) or comments; how a file has them shows where a sentence
// begins with one.
ConllFormat format_of(std::string_view sample, bool ended) {
  ConllFormat format{.tabs = true, .universal = true};
  bool any = false;
  const auto is_word = [](std::string_view line) {
    return !is_empty_line(line) && !line.starts_with(kDocument) && !line.starts_with('#');
  };
  for_each_line(sample, ended, [&](std::string_view line) {
    if (!is_word(line)) return;
    any = true;
    format.tabs &= line.find('\t') != line.npos;
    format.universal &= std::ranges::count(line, '\t') == 9 && line[0] >= '0' && line[0] <= '9';
  });
  format.universal &= any;
  format.tabs &= any;
  std::vector<std::string_view> fields;
  for_each_line(sample, ended, [&](std::string_view line) {
    if (format.columns > 0 || !is_word(line)) return;
    split_columns(line, format.tabs, fields);
    format.columns = fields.size();
    if (names_columns(fields)) format.names.assign(fields.begin(), fields.end());
  });
  bool begins = true;
  for_each_line(sample, ended, [&](std::string_view line) {
    if (begins && line.starts_with('#')) {
      split_columns(line, format.tabs, fields);
      if (format.columns == 0) format.columns = fields.size();  // there is nothing but these
      format.comments |= format.universal || fields.size() != format.columns;
    }
    begins = is_empty_line(line) || line.starts_with(kDocument) || (begins && line.starts_with('#'));
  });
  return format;
}

size_t column_of(const std::string& given, const char* field, const ConllFormat& format, size_t usual,
                 const std::string& name) {
  if (given.empty()) return usual;
  const auto same =
      std::ranges::find_if(format.names, [&](const auto& n) { return is_same_column(n, given); });
  if (same != format.names.end()) return size_t(same - format.names.begin());
  size_t number = 0;
  if (!parse_number(given, number) || number < 1 || number > format.columns)
    throw Error(fmt::format("{} has no column {}: {}", name, io::quote(given),
                            format.names.empty()
                                ? fmt::format("it has {} without names, as CoNLL has them", format.columns)
                                : fmt::format("its columns are {}", fmt::join(format.names, ", "))),
                fmt::format("`{}` takes {}a number from 1 to {}", field,
                            format.names.empty() ? "" : "one of these, or ", format.columns),
                field);
  return number - 1;
}

}  // namespace

bool looks_like_conll(std::string_view sample) {
  size_t columns = 0, words = 0, breaks = 0, plain = 0;
  bool same = true, tagged = true, in_sentence = false;
  std::vector<std::string_view> fields;
  for_each_line(sample, false, [&](std::string_view line) {
    if (is_empty_line(line) || line.starts_with(kDocument)) {
      breaks += std::exchange(in_sentence, false);
      return;
    }
    if (!in_sentence && line.starts_with('#')) return;  // a comment, or a tag that others will vouch for
    in_sentence = true;
    split_columns(line, false, fields);
    if (words == 0 && names_columns(fields)) return;
    if (words++ == 0) columns = fields.size();
    same &= fields.size() == columns;
    tagged &= is_scheme_tag(fields.back());
    plain += fields.back() == "O";
  });
  return words > 0 && breaks > 0 && columns > 1 && same && tagged && plain > 0;
}

ConllReader::ConllReader(std::unique_ptr<io::TextWindow> window, const std::string& word_column,
                         const std::string& tag_column)
    : window_(std::move(window)) {
  const std::string_view sample = window_->fill(io::kTableSample);
  io::check_is_text(sample, file().name());
  format_ = format_of(sample, window_->ended());
  before_header_ = !format_.names.empty();
  const auto named = std::ranges::find_if(format_.names, is_usual_word_column);
  const size_t first = format_.universal ? 1 : before_header_ ? size_t(named - format_.names.begin()) : 0;
  const size_t last = std::max<size_t>(format_.columns, 1) - 1;
  word_ = column_of(word_column, "text", format_, first, file().name());
  tag_ = column_of(tag_column, "label", format_, format_.universal ? 3 : last, file().name());
}

std::string ConllReader::describe() const {
  const std::string_view name = format_.universal ? "CoNLL-U" : "CoNLL";
  const auto column = [&](size_t i) {
    return format_.names.empty() ? std::to_string(i + 1) : format_.names[i];
  };
  return has_tags() ? fmt::format("{}, columns {} and {}", name, column(word_), column(tag_))
                    : fmt::format("{}, column {}", name, column(word_));
}

void ConllReader::read_word(std::string_view line, ConllSentence& sentence) {
  if (sentence.words.empty() && !sentence.problem) sentence.line = window_->line();
  split_columns(line, format_.tabs, fields_);
  if (format_.universal && fields_[0].find_first_of("-.") != fields_[0].npos) return;  // not a word by itself
  std::string problem;
  if (fields_.size() != format_.columns)
    problem = fmt::format("{} column{} where the first word has {}", fields_.size(),
                          fields_.size() == 1 ? "" : "s", format_.columns);
  else if (line.find('\0') != line.npos)
    problem = "this line has a zero byte in it";
  else if (is_empty_line(fields_[word_]))
    problem = "there is no word";
  else if (is_empty_line(fields_[tag_]))
    problem = "there is no tag";
  if (problem.empty()) {
    sentence.words.emplace_back(fields_[word_]);
    sentence.lines.push_back(window_->line());
    if (has_tags()) sentence.tags.emplace_back(fields_[tag_]);
  } else if (!sentence.problem) {
    sentence.line = window_->line();
    sentence.problem.emplace(problem,
                             "a word a line, the same columns in each, an empty line after a sentence");
  }
}

bool ConllReader::next(ConllSentence& sentence) {
  sentence = {};
  while (true) {
    const size_t end = window_->line_end(io::kMaxTableRow);
    if (end == std::string_view::npos) {
      sentence.line = window_->line();
      sentence.problem.emplace(fmt::format("this line is longer than {} MB", io::kMaxTableRow >> 20));
      window_->skip_line();
      continue;
    }
    const std::string_view line = io::without_line_end(window_->text().substr(0, end));
    const bool found = !sentence.words.empty() || sentence.problem;
    const bool ends = end == 0 || is_empty_line(line) || line.starts_with(kDocument);
    // Of a comment between a sentence's words nobody has heard: there, # is a word.
    const bool comment = line.starts_with('#') && (format_.universal || (format_.comments && !found));
    const bool header = !ends && !line.starts_with('#') && std::exchange(before_header_, false);
    if (!ends && !comment && !header) read_word(line, sentence);
    window_->take(end);
    if (ends && found) return true;
    if (end == 0) return false;
  }
}

}  // namespace bertie
