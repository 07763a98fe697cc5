#include "train/data/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "core/checked.h"
#include "io/quote.h"
#include "train/data/labels.h"

namespace bertie {
namespace {

using Names = std::span<const std::string_view>;

// As simplified() leaves them, the likeliest first.
constexpr std::string_view kTextNames[] = {
    "text",     "sentence", "review",   "content",   "comment",  "message",     "tweet",    "body",
    "document", "input",    "headline", "utterance", "abstract", "description", "question", "title"};
constexpr size_t kLikely = 8;  // of them; the others are often beside the text
constexpr std::pair<std::string_view, std::string_view> kPairNames[] = {{"sentence1", "sentence2"},
                                                                        {"#1string", "#2string"},
                                                                        {"premise", "hypothesis"},
                                                                        {"question1", "question2"},
                                                                        {"texta", "textb"},
                                                                        {"text1", "text2"},
                                                                        {"text", "textpair"},
                                                                        {"sentencea", "sentenceb"},
                                                                        {"question", "sentence"},
                                                                        {"query", "passage"},
                                                                        {"query", "document"},
                                                                        {"claim", "evidence"},
                                                                        {"s1", "s2"}};
constexpr std::string_view kLabelNames[] = {"label",
                                            "labels",
                                            "goldlabel",
                                            "class",
                                            "category",
                                            "target",
                                            "quality",
                                            "score",
                                            "sentiment",
                                            "rating",
                                            "stars",
                                            "similarity",
                                            "isduplicate",
                                            "topic",
                                            "intent",
                                            "polarity",
                                            "emotion",
                                            "relatednessscore",
                                            "entailmentjudgment",
                                            "y"};
constexpr std::string_view kWordNames[] = {"tokens", "words", "token", "word", "form"};
constexpr std::string_view kTagNames[] = {"tags", "nertags", "labels",  "label",  "tag", "nertag",
                                          "ner",  "entity",  "postags", "postag", "pos", "upos"};
constexpr std::string_view kQuestionNames[] = {"question"}, kContextNames[] = {"context"},
                           kAnswerNames[] = {"answers"};

// "Sentence_1" and "sentence 1" are the same name.
std::string simplified(std::string_view name) {
  std::string simple;
  for (char c : name)
    if (c != ' ' && c != '_' && c != '-' && c != '.')
      simple += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return simple;
}

// "Review Text", "review_text" and "reviewText" have the words review and text.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  bool after_small = false;
  for (const char c : name) {
    const bool large = c >= 'A' && c <= 'Z', small = c >= 'a' && c <= 'z';
    if (!large && !small && uint8_t(c) < 0x80) {
      words.emplace_back();
    } else {
      if (large && after_small) words.emplace_back();
      words.back() += large ? char(c - 'A' + 'a') : c;
    }
    after_small = small;
  }
  return words;
}

std::string listed(const std::vector<std::string>& items) {
  std::string list;
  constexpr size_t kShown = 30;
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i)
    list += fmt::format("{}{}", i > 0 ? ", " : "", items[i]);
  return items.size() > kShown ? list + fmt::format(" and {} more", items.size() - kShown) : list;
}

class ColumnFinder {
 public:
  ColumnFinder(io::TableReader& reader, const WantedColumns& wanted) : reader_(reader), wanted_(wanted) {
    for (const std::string& name : reader.columns()) {
      simple_.push_back(simplified(name));
      words_.push_back(words_of(name));
    }
  }

  FoundColumns find() {
    FoundColumns found;
    if (is_cola()) return {.text = 3, .text_pair = {}, .label = 1};
    const bool pairs = wanted_.kind == TaskKind::kPair;
    std::optional<size_t> text = named(wanted_.text, "text"), pair = named(wanted_.text_pair, "text_pair");
    found.truths = several_named(wanted_.label);
    if (found.truths.empty()) found.label = named(wanted_.label, "label");
    const bool label_found = found.label || !found.truths.empty();
    take(text, "text"), take(pair, "text_pair"), take(found.label, "label");
    for (const size_t truth : found.truths) take(truth, "label");
    switch (wanted_.kind) {
      case TaskKind::kTag:
        if (!text) text = usual(kWordNames, "text");
        if (!found.label) found.label = usual(kTagNames, "label");
        if (!text && !wanted_.label_wanted) text = usual(kTextNames, "text");
        break;
      case TaskKind::kAnswer:
        if (!text) text = usual(kQuestionNames, "text");
        if (!pair) pair = usual(kContextNames, "text_pair");
        if (!found.label) found.label = usual(kAnswerNames, "label");
        break;
      case TaskKind::kPair:
        find_pair(text, pair);
        [[fallthrough]];
      case TaskKind::kClassify:
        if (!label_found) found.label = usual(kLabelNames, "label");
        for (const Names names : {Names(kTextNames).first(kLikely), Names(kTextNames).subspan(kLikely)}) {
          if (!text && !pairs) text = usual(names, "text");
          if (!text && !pairs) text = with_word(names, found.label);
        }
        if (!label_found && !found.label) found.label = with_word(kLabelNames, text);
    }
    // What is left over is the text or the label, where that is clear.
    std::vector<size_t> others;
    for (size_t i = 0; i < simple_.size(); ++i)
      if (i != text && i != pair && i != found.label && !std::ranges::count(found.truths, i))
        others.push_back(i);
    const size_t missing = size_t(!text) + size_t(takes_two() && !pair);
    if (wanted_.label_wanted && !found.label && found.truths.empty() && missing == 0 && others.size() == 1)
      found.label = others[0];
    const bool label_settled = found.label || !found.truths.empty() || !wanted_.label_wanted;
    if (label_settled && missing > 0 && others.size() == missing) {
      if (!text) text = others.front();
      if (takes_two() && !pair) pair = others.back();
    }
    if (!text) not_found("text", text_what(), !label_settled);
    if (takes_two() && !pair)
      not_found("text_pair", pairs ? "the second text" : "the context", !label_settled);
    if (!label_settled)
      not_found("label", wanted_.kind == TaskKind::kTag      ? "the tags"
                         : wanted_.kind == TaskKind::kAnswer ? "the answers"
                                                             : "the label");
    found.text = *text;
    if (takes_two()) found.text_pair = pair;
    return found;
  }

 private:
  bool takes_two() const { return wanted_.kind == TaskKind::kPair || wanted_.kind == TaskKind::kAnswer; }
  const char* text_what() const {
    switch (wanted_.kind) {
      case TaskKind::kPair:
        return "the first text";
      case TaskKind::kTag:
        return "the words";
      case TaskKind::kAnswer:
        return "the question";
      case TaskKind::kClassify:
        break;
    }
    return "the text";
  }

  // Source, label, a star or nothing, sentence; no header.
  bool is_cola() const {
    if (wanted_.kind != TaskKind::kClassify || !(wanted_.text + wanted_.label).empty() ||
        reader_.format().json() || reader_.format().header || simple_.size() != 4)
      return false;
    const auto& rows = reader_.ahead(20);
    return !rows.empty() && std::ranges::all_of(rows, [](const io::TableRow& row) {
      return row.problem || ((row.fields[1] == "0" || row.fields[1] == "1") &&
                             (row.fields[2].empty() || row.fields[2] == "*"));
    });
  }

  // A column that was named is no other one.
  void take(std::optional<size_t> column, const char* field) {
    if (!column) return;
    for (const auto& [place, other] : named_)
      if (place == *column)
        throw Error(fmt::format("{}: the column {} cannot be `{}` and `{}` at once", reader_.file().name(),
                                io::quote(reader_.columns()[place]), other, field),
                    "another column", field);
    named_.emplace_back(*column, field);
  }
  bool is_named(size_t column) const {
    return std::ranges::any_of(named_, [&](const auto& one) { return one.first == column; });
  }

  void find_pair(std::optional<size_t>& text, std::optional<size_t>& pair) const {
    for (const auto& [first, second] : kPairNames) {
      const std::optional<size_t> a = only(first, simple_, "text"), b = only(second, simple_, "text_pair");
      if (!a || !b || (text != a && (text || is_named(*a))) || (pair != b && (pair || is_named(*b))))
        continue;
      text = a, pair = b;
      return;
    }
  }

  std::optional<size_t> usual(Names names, const char* field) const {
    for (const std::string_view name : names)
      if (const auto place = only(name, simple_, field); place && !is_named(*place)) return place;
    return {};
  }

  // The only column that has one of these names among its words, and is not taken or a number of rows.
  std::optional<size_t> with_word(Names names, std::optional<size_t> taken) const {
    const auto has = [&](size_t i, std::string_view word) {
      return std::ranges::find(words_[i], word) != words_[i].end();
    };
    for (const std::string_view name : names) {
      std::vector<size_t> places;
      for (size_t i = 0; i < words_.size() && name.size() > 1; ++i)
        if (i != taken && !is_named(i) && has(i, name) && !has(i, "id")) places.push_back(i);
      if (places.size() == 1) return places[0];
    }
    return {};
  }

  // The column of this name; Error where there are two.
  std::optional<size_t> only(std::string_view name, const std::vector<std::string>& names,
                             const char* field) const {
    const auto first = std::ranges::find(names, name);
    if (first == names.end()) return {};
    const auto second = std::find(first + 1, names.end(), name);
    if (second != names.end())
      throw Error(
          fmt::format("{} has two columns {}: {}", reader_.file().name(), io::quote(name), columns_text()),
          fmt::format("`{}` takes a number: {} is the first of them", field, first - names.begin() + 1),
          field);
    return size_t(first - names.begin());
  }

  std::optional<size_t> named(const std::string& name, const char* field) const {
    if (name.empty()) return {};
    if (const auto exact = only(name, reader_.columns(), field)) return exact;
    if (const auto similar = only(simplified(name), simple_, field)) return similar;
    size_t number = 0;
    if (!reader_.format().json() && parse_number(name, number) && number >= 1 && number <= simple_.size())
      return number - 1;
    const std::vector<std::string_view> known(reader_.columns().begin(), reader_.columns().end());
    std::string_view near = nearest(name, known);
    const std::string simple = simplified(name);
    const std::string_view word = simple;
    if (const auto place = with_word({&word, 1}, {}); near.empty() && place) near = known[*place];
    throw Error(
        fmt::format("{} has no column {}: {}", reader_.file().name(), io::quote(name), columns_text()),
        near.empty() ? std::string("a name or a number of these")
                     : fmt::format("did you mean {}?", io::quote(near)),
        field);
  }

  // "toxic,insult": where that is not one column's name, the columns of these names.
  std::vector<size_t> several_named(const std::string& names) const {
    const bool texts = wanted_.kind == TaskKind::kClassify || wanted_.kind == TaskKind::kPair;
    if (!texts || names.find(',') == names.npos || std::ranges::count(reader_.columns(), names)) return {};
    std::vector<size_t> places;
    for (const std::string& name : separated(names, ',')) {
      places.push_back(*named(name, "label"));
      if (std::ranges::count(places, places.back()) > 1)
        throw Error(fmt::format("{} names the column {} twice", io::quote(names), io::quote(name)), "",
                    "label");
    }
    return places;
  }

  std::string columns_text() const {
    std::vector<std::string> items;
    if (reader_.format().json() || reader_.format().header) {
      for (const std::string& name : reader_.columns()) items.push_back(io::quote(name));
      return (reader_.format().json() ? "its keys are " : "its columns are ") + listed(items);
    }
    for (const io::TableRow& row : reader_.ahead(1))
      for (size_t i = 0; i < row.fields.size(); ++i)
        items.push_back(fmt::format("{} {}", i + 1, io::quote(row.fields[i].substr(0, 40))));
    return "it has no header, and its first row is " + listed(items);
  }

  [[noreturn]] void not_found(const char* field, const char* what, bool nor_label = false) const {
    std::string hint = fmt::format("`{}` says which column it is, by name or by number from 1", field);
    if (nor_label) hint += "; `label` which one has the label";
    if (wanted_.kind == TaskKind::kClassify && field == std::string_view("text")) {
      std::optional<size_t> a, b;
      find_pair(a, b);
      if (a) hint += "; two texts a row are a task for pairs";
    }
    throw Error(
        fmt::format("{}: no column has a usual name for {}: {}", reader_.file().name(), what, columns_text()),
        hint, field);
  }

  io::TableReader& reader_;
  const WantedColumns& wanted_;
  std::vector<std::pair<size_t, const char*>> named_;  // and what for
  std::vector<std::string> simple_;
  std::vector<std::vector<std::string>> words_;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '#' || c == '-' || c == ' ';
  });
}

}  // namespace

bool is_usual_word_column(std::string_view name) {
  return name == "text" || std::ranges::count(kWordNames, simplified(name)) > 0;
}
bool is_usual_tag_column(std::string_view name) {
  return std::ranges::count(kTagNames, simplified(name)) > 0;
}

bool is_same_column(std::string_view a, std::string_view b) { return simplified(a) == simplified(b); }

bool is_usual_column_name(std::string_view name) {
  const std::string simple = simplified(name);
  for (const Names names : {Names(kTextNames), Names(kLabelNames), Names(kWordNames), Names(kTagNames),
                            Names(kQuestionNames), Names(kContextNames), Names(kAnswerNames)})
    if (std::ranges::find(names, simple) != names.end()) return true;
  return std::ranges::any_of(kPairNames,
                             [&](const auto& pair) { return pair.first == simple || pair.second == simple; });
}

io::TableHints table_hints(const WantedColumns& wanted) {
  // Rows with labels have a header, as a rule; a list of texts need not.
  io::TableHints hints{
      .header = {}, .header_expected = wanted.label_wanted, .is_column_name = is_usual_column_name};
  std::vector<std::string> names = separated(wanted.label, ',');
  names.insert(names.end(), {wanted.text, wanted.text_pair});
  for (const std::string& name : names)
    if (size_t number; !name.empty() && !parse_number(name, number)) hints.header = true;
  return hints;
}

FoundColumns find_columns(io::TableReader& reader, const WantedColumns& wanted) {
  return ColumnFinder(reader, wanted).find();
}

std::string describe(const io::TableReader& reader, const FoundColumns& found) {
  std::vector<std::string> names;
  const auto add = [&](std::optional<size_t> column) {
    if (!column) return;
    const std::string& name = reader.columns()[*column];
    names.push_back(is_plain_name(name) ? name : io::quote(name));
  };
  add(found.text), add(found.text_pair), add(found.label);
  for (const size_t truth : found.truths) add(truth);
  std::string text = reader.format().json() ? "key" : "column";
  if (names.size() > 1) text += 's';
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : i + 1 == names.size() ? " and" : ",", names[i]);
  return text;
}

std::string text_field(const io::TableReader& reader, io::TableRow& row, size_t column) {
  if (!reader.format().json()) return std::move(row.fields[column]);
  const nlohmann::json& value = json_field(reader, row, column);
  if (value.is_string()) return value.get<std::string>();
  const std::string& key = reader.columns()[column];
  if (value.is_null()) throw Error(fmt::format("there is no {}", io::quote(key)));
  throw Error(fmt::format("{} is {} {}, not a string", io::quote(key),
                          value.is_array() || value.is_object() ? "an" : "a", value.type_name()));
}

const nlohmann::json& json_field(const io::TableReader& reader, const io::TableRow& row, size_t column) {
  static const nlohmann::json kNull;
  const auto entry = row.object.find(reader.columns()[column]);
  return entry == row.object.end() ? kNull : *entry;
}

}  // namespace bertie
