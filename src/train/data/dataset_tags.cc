// Tagged sentences: CoNLL columns, or JSON with lists of words and tags.
#include <fmt/format.h>

#include <algorithm>
#include <map>
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
  std::vector<std::vector<size_t>> lines = {};      // of each one's words; empty where they share one

  size_t line(size_t sentence, size_t word) const {
    return lines[sentence].empty() ? sentences[sentence].line : lines[sentence][word];
  }
  void add(TaggedSentence sentence, std::vector<std::string> its_tags, std::vector<size_t> its_lines) {
    sentences.push_back(std::move(sentence)), tags.push_back(std::move(its_tags));
    lines.push_back(std::move(its_lines));
  }
};

void check_sentence(DatasetRows& rows, const DatasetOptions& options, TaggedSentence& sentence,
                    std::vector<std::string>& tags) {
  if (sentence.words.empty()) throw Error("there are no words");
  if (options.labels_needed && tags.empty()) throw Error("the words have no tags");
  if (!tags.empty() && tags.size() != sentence.words.size())
    throw Error(fmt::format("{} words and {} tags", sentence.words.size(), tags.size()));
  if (std::ranges::any_of(sentence.words, [](const std::string& word) { return word.empty(); }))
    throw Error("a word is empty");
  rows.make_valid(sentence.line, sentence.words);
  rows.make_valid(sentence.line, tags);
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
      TaggedSentence tagged{.words = std::move(sentence.words), .tags = {}, .line = sentence.line};
      check_sentence(rows, options, tagged, sentence.tags);
      all.add(std::move(tagged), std::move(sentence.tags), std::move(sentence.lines));
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
      check_sentence(rows, options, sentence, tags.names);
      all.add(std::move(sentence), std::move(tags.names), {});
    } catch (const Error& error) {
      rows.bad(row.line, error);
    }
}

// Where most tags have prefixes, another sign than O for what is outside of entities becomes O, where there
// is no O; any other tag without a prefix is a mistake, and makes its sentence bad.
void mend_or_leave_out_odd_tags(DatasetRows& rows, WrittenTags& all) {
  std::map<std::string_view, size_t> odd;
  size_t outside = 0, prefixed = 0, odd_tags = 0;
  for (const std::vector<std::string>& tags : all.tags)
    for (const std::string& tag : tags) {
      outside += tag == "O", prefixed += tag != "O" && is_scheme_tag(tag);
      if (!is_scheme_tag(tag)) ++odd[tag], ++odd_tags;
    }
  constexpr std::string_view kOutside[] = {"o", "0", "_", "-", "OUT", "OTHER", "Other", "other"};
  if (odd.size() == 1 && outside == 0 && prefixed > 0 &&
      std::ranges::count(kOutside, odd.begin()->first) > 0) {
    const std::string sign(odd.begin()->first);
    for (std::vector<std::string>& tags : all.tags) std::ranges::replace(tags, sign, std::string("O"));
    return;
  }
  if (odd_tags == 0 || odd_tags >= prefixed) return;
  WrittenTags good;
  for (size_t i = 0; i < all.tags.size(); ++i) {
    const auto wrong = std::ranges::find_if_not(all.tags[i], is_scheme_tag);
    if (wrong == all.tags[i].end()) {
      good.add(std::move(all.sentences[i]), std::move(all.tags[i]), std::move(all.lines[i]));
      continue;
    }
    const auto word = size_t(wrong - all.tags[i].begin());
    rows.bad(all.line(i, word),
             Error(fmt::format("the tag {} of the word {} is neither O nor like B-PER, as most others are",
                               io::quote(*wrong), io::quote(all.sentences[i].words[word]))));
  }
  all = std::move(good);
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
  mend_or_leave_out_odd_tags(rows, all);
  const TagScheme scheme = recognize_scheme(all.tags);
  const bool any_tags = std::ranges::any_of(all.tags, [](const auto& tags) { return !tags.empty(); });
  if (any_tags) data.found += fmt::format(", {}", name_of(scheme));
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
