// Tagged sentences: CoNLL columns, or JSON with lists of words and tags.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "io/quote.h"
#include "train/data/columns.h"
#include "train/data/conll.h"
#include "train/data/dataset_rows.h"
#include "train/data/iob.h"
#include "train/data/labels.h"

namespace bertie {
namespace {

// Words with their tags as the file has them.
struct WrittenTags {
  std::vector<TaggedSentence> sentences = {};
  std::vector<std::vector<std::string>> tags = {};  // of each; empty where there are none
};

void add_sentence(DatasetRows& rows, const DatasetOptions& options, TaggedSentence sentence,
                  std::vector<std::string> tags, WrittenTags& all) {
  if (sentence.words.empty()) throw Error("there are no words");
  if (options.labels_needed && tags.empty()) throw Error("the words have no tags");
  if (!tags.empty() && tags.size() != sentence.words.size())
    throw Error(fmt::format("{} words and {} tags", sentence.words.size(), tags.size()));
  if (std::ranges::any_of(sentence.words, [](const std::string& word) { return word.empty(); }))
    throw Error("a word is empty");
  rows.make_valid(sentence.line, sentence.words);
  rows.make_valid(sentence.line, tags);
  all.sentences.push_back(std::move(sentence));
  all.tags.push_back(std::move(tags));
}

void read_conll(Dataset& data, const DatasetOptions& options, std::unique_ptr<io::TextWindow> window,
                WrittenTags& all) {
  ConllReader reader(std::move(window), options.text, options.label);
  data.found = reader.describe();
  DatasetRows rows(data, options);
  if (options.labels_needed && !reader.has_tags()) {
    ConllSentence first;
    if (!reader.next(first)) return;
    throw Error(fmt::format("{}:{}: words have one column, and no tags in it", data.file, first.line),
                "a word a line, its tag in the last column, an empty line after a sentence", "label");
  }
  for (ConllSentence sentence; reader.next(sentence);) try {
      if (sentence.problem) throw Error(*sentence.problem);
      add_sentence(rows, options, {.words = std::move(sentence.words), .tags = {}, .line = sentence.line},
                   std::move(sentence.tags), all);
    } catch (const Error& error) {
      rows.bad(sentence.line, error);
    }
}

void read_json_tags(Dataset& data, const DatasetOptions& options, std::unique_ptr<io::TextWindow> window,
                    const std::string& path, WrittenTags& all) {
  const WantedColumns wanted{.kind = TaskKind::kTag,
                             .text = options.text,
                             .text_pair = {},
                             .label = options.label,
                             .label_wanted = options.labels_needed};
  io::TableReader reader(std::move(window), io::table_extension(path), table_hints(wanted));
  data.found = describe(reader.format());
  if (!reader.format().json())
    throw Error(fmt::format("{} is read as {}, which has no form for tags", data.file, data.found),
                "CoNLL columns (a word and its tag a line), or JSON lines with \"tokens\" and \"tags\"");
  DatasetRows rows(data, options);
  if (reader.columns().empty()) return rows.bad_all(reader);
  const FoundColumns columns = find_columns(reader, wanted);
  data.found += ", " + describe(reader, columns);
  for (io::TableRow row; reader.next(row);) try {
      if (row.problem) throw Error(*row.problem);
      const nlohmann::json& words = json_field(reader, row, columns.text);
      if (!words.is_array())
        throw Error(fmt::format("{} is not a list of words", io::quote(reader.columns()[columns.text])));
      TaggedSentence sentence{.line = row.line};
      for (const nlohmann::json& word : words) {
        if (!word.is_string()) throw Error(fmt::format("a word is a {}, not a string", word.type_name()));
        sentence.words.push_back(word.get<std::string>());
      }
      WrittenLabel tags;
      if (columns.label) tags = label_in_json(json_field(reader, row, *columns.label));
      if (columns.label && !tags.missing && !tags.list)
        throw Error(fmt::format("{} is not a list of tags", io::quote(reader.columns()[*columns.label])));
      add_sentence(rows, options, std::move(sentence), std::move(tags.names), all);
    } catch (const Error& error) {
      rows.bad(row.line, error);
    }
}

// Where nearly all tags have prefixes, one without is a mistake and no sign of another scheme.
void leave_out_odd_tags(DatasetRows& rows, WrittenTags& all) {
  size_t odd = 0, prefixed = 0;
  for (const std::vector<std::string>& tags : all.tags)
    for (const std::string& tag : tags) (is_scheme_tag(tag) ? prefixed : odd) += tag != "O";
  constexpr size_t kOneIn = 20;
  if (odd == 0 || odd * kOneIn > prefixed + odd) return;
  WrittenTags good;
  for (size_t i = 0; i < all.tags.size(); ++i) {
    const auto wrong = std::ranges::find_if_not(all.tags[i], is_scheme_tag);
    if (wrong != all.tags[i].end()) {
      rows.bad(all.sentences[i].line,
               Error(fmt::format("the tag {} of the word {} is neither O nor like B-PER, as the others are",
                                 io::quote(*wrong),
                                 io::quote(all.sentences[i].words[size_t(wrong - all.tags[i].begin())]))));
      continue;
    }
    good.sentences.push_back(std::move(all.sentences[i]));
    good.tags.push_back(std::move(all.tags[i]));
  }
  all = std::move(good);
}

bool is_number(const std::string& tag) {
  return std::ranges::all_of(tag, [](char c) { return c >= '0' && c <= '9'; });
}

// O first, and of every kind of entity both B- and I-.
std::vector<std::string> tag_names(const std::vector<std::vector<std::string>>& sentences, bool iob) {
  std::set<std::string> all;
  for (const std::vector<std::string>& tags : sentences) all.insert(tags.begin(), tags.end());
  if (all.empty()) return {};
  if (iob)
    for (const std::string& name : std::vector<std::string>(all.begin(), all.end()))
      if (name != "O") all.insert("B" + name.substr(1)), all.insert("I" + name.substr(1));
  const bool outside = all.erase("O") > 0 || iob;
  std::vector<std::string> names(all.begin(), all.end());
  sort_labels(names);
  if (outside) names.insert(names.begin(), "O");
  return names;
}

}  // namespace

void read_tags(Dataset& data, const DatasetOptions& options, const std::string& path) {
  auto window = std::make_unique<io::TextWindow>(path);
  const std::string extension = io::table_extension(path);
  const std::string_view sample = window->fill(io::kTableSample);
  const size_t begin = sample.find_first_not_of(" \t\r\n");
  const bool json =
      extension == "json" || extension == "jsonl" || extension == "ndjson" ||
      io::begins_json_object(sample) ||
      (begin != sample.npos && sample[begin] == '[' && io::begins_json_object(sample.substr(begin + 1)));
  WrittenTags all;
  if (json || extension == "csv")
    read_json_tags(data, options, std::move(window), path, all);
  else
    read_conll(data, options, std::move(window), all);

  DatasetRows rows(data, options);
  leave_out_odd_tags(rows, all);
  const TagScheme scheme = recognize_scheme(all.tags);
  const bool any_tags = std::ranges::any_of(all.tags, [](const auto& tags) { return !tags.empty(); });
  if (any_tags) data.found += fmt::format(", {}", name_of(scheme));
  if (any_tags &&
      std::ranges::all_of(all.tags, [](const auto& tags) { return std::ranges::all_of(tags, is_number); }))
    data.found += " (numbers: what they name is not known, so that entities are not counted)";
  if (scheme != TagScheme::kPlain)
    for (std::vector<std::string>& tags : all.tags) convert_to_iob2(tags);
  data.labels = tag_names(all.tags, scheme != TagScheme::kPlain);
  const LabelPlaces places(data.labels);
  for (size_t i = 0; i < all.sentences.size(); ++i) {
    data.labeled &= !all.tags[i].empty();
    for (const std::string& tag : all.tags[i]) all.sentences[i].tags.push_back(*places.find(tag));
  }
  data.sentences = std::move(all.sentences);
}

}  // namespace bertie
