#include "bertie/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/checked.h"
#include "io/quote.h"
#include "text/unicode/unicode.h"
#include "train/data/dataset_rows.h"
#include "train/data/labels.h"

namespace bertie {

std::string_view name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kClassify:
      return "classify";
    case TaskKind::kPair:
      return "pair";
    case TaskKind::kTag:
      return "tag";
    case TaskKind::kAnswer:
      break;
  }
  return "answer";
}

std::string DatasetRows::place(size_t line) const {
  return line == 0 ? data_.file : fmt::format("{}:{}", data_.file, line);
}

void DatasetRows::bad(size_t line, const Error& problem) {
  const Error error(fmt::format("{}: {}", place(line), problem.what()), problem.hint(), problem.field());
  if (!options_.skip_bad)
    throw Error(error.what(), problem.hint().empty() ? "mend it, or leave such rows out: `skip_bad`"
                                                     : problem.hint() + "; `skip_bad` leaves such rows out");
  ++data_.bad_rows;
  if (options_.bad_row) options_.bad_row(error);
}

void DatasetRows::mend(std::string& text, size_t line) {
  if (text::valid_utf8(text)) return;
  if (options_.strict) throw Error("not valid UTF-8", "iconv -f latin1 -t utf8, if it is Latin-1");
  std::string valid;
  text::replace_invalid(text, valid);
  text = std::move(valid);
  if (std::exchange(counted_line_, line) == line) return;
  if (data_.invalid_rows++ == 0) data_.first_invalid = place(line);
}

void DatasetRows::make_valid(size_t line, std::initializer_list<std::string*> texts) {
  for (std::string* text : texts) mend(*text, line);
}

void DatasetRows::make_valid(size_t line, std::vector<std::string>& texts) {
  for (std::string& text : texts) mend(text, line);
}

void DatasetRows::bad_all(io::TableReader& reader) {
  for (io::TableRow row; reader.next(row);)
    bad(row.line, row.problem ? Error(*row.problem) : Error("this object is empty"));
}

Dataset read_dataset(TaskKind kind, const std::string& file, const DatasetOptions& options) {
  Dataset data{.kind = kind, .file = file == "-" ? "standard input" : file};
  switch (kind) {
    case TaskKind::kClassify:
    case TaskKind::kPair:
      read_texts(data, options, file);
      break;
    case TaskKind::kTag:
      read_tags(data, options, file);
      break;
    case TaskKind::kAnswer:
      read_questions(data, options, file);
      break;
  }
  if (data.size() == 0)
    throw Error(data.bad_rows > 0
                    ? fmt::format("none of the {} rows of {} can be used", data.bad_rows, data.file)
                    : fmt::format("{} has no rows", data.file),
                fmt::format("it was read as {}", data.found));
  return data;
}

void check_learnable(const Dataset& data) {
  if (data.kind == TaskKind::kAnswer) return;
  if (!data.labeled)
    throw Error(fmt::format("{}: some rows have no labels to learn from", data.file), "", "label");
  if (data.kind != TaskKind::kTag && data.problem == Problem::kRegression) {
    const auto same = [&](const TextExample& row) { return row.value == data.texts[0].value; };
    if (std::ranges::all_of(data.texts, same))
      throw Error(fmt::format("{}: the number of every row is {}, so that there is nothing to learn",
                              data.file, data.texts[0].value),
                  "another column, with `label`?", "label");
    return;
  }
  const bool several = data.kind != TaskKind::kTag && data.problem == Problem::kMultiLabel;
  if (data.labels.empty() || (data.labels.size() == 1 && !several))
    throw Error(fmt::format("{}: the label of every row is {}, so that there is nothing to learn", data.file,
                            data.labels.empty() ? "missing" : io::quote(data.labels[0])),
                "rows of at least two classes; or another column, with `label`", "label");
  if (data.kind == TaskKind::kTag || several) return;
  if (data.texts.size() > 4 && lone_rows(data) == data.texts.size())
    throw Error(fmt::format("{}: all {} rows have different labels, so that there is nothing to learn",
                            data.file, data.texts.size()),
                "another column, with `label`; or, if these are numbers to predict, `problem` number",
                "label");
}

size_t lone_rows(const Dataset& data) {
  if (data.kind == TaskKind::kTag || data.problem != Problem::kSingleLabel) return 0;
  std::vector<size_t> counts(data.labels.size());
  for (const TextExample& row : data.texts)
    for (const int32_t label : row.labels) ++counts[size_t(label)];
  return size_t(std::ranges::count(counts, 1u));
}

namespace {

// For each of the data's labels its place among others.
std::vector<std::optional<int32_t>> places_among(const std::vector<std::string>& from,
                                                 const std::vector<std::string>& to) {
  const LabelPlaces names(to);
  std::vector<std::optional<int32_t>> places;
  for (const std::string& label : from) places.push_back(names.find(label));
  const auto missing = [](const std::optional<int32_t>& place) { return !place; };
  // Numbers from 0 on are places. Without a 0 they may count from 1, or be something else.
  if (!std::ranges::all_of(places, missing) || std::ranges::count(from, "0") == 0) return places;
  for (size_t i = 0; i < from.size(); ++i) {
    size_t number = 0;
    if (!parse_number(from[i], number) || number >= to.size() || std::to_string(number) != from[i])
      return std::vector<std::optional<int32_t>>(from.size());
    places[i] = int32_t(number);
  }
  return places;
}

std::string some_of(const std::vector<std::string>& labels) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(labels.size(), 20); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", io::quote(labels[i]));
  return labels.size() > 20 ? text + " …" : text;
}

}  // namespace

Dataset with_labels(Dataset data, const std::vector<std::string>& labels, const DatasetOptions& options) {
  if (data.kind == TaskKind::kAnswer || data.labels.empty()) return data;
  const std::vector<std::optional<int32_t>> places = places_among(data.labels, labels);
  DatasetRows rows(data, options);
  const auto change = [&](std::vector<int32_t>& its) {
    for (int32_t& label : its) {
      if (!places[size_t(label)])
        throw Error(fmt::format("the label {} is not one of {}", io::quote(data.labels[size_t(label)]),
                                some_of(labels)),
                    "the model learns labels from the rows that it is trained on: put such rows there");
      label = *places[size_t(label)];
    }
  };
  const auto keep_good = [&](auto& all, auto labels_of) {
    size_t good = 0;
    for (auto& row : all) try {
        change(row.*labels_of);
        if (&all[good] != &row) all[good] = std::move(row);
        ++good;
      } catch (const Error& error) {
        rows.bad(row.line, error);
      }
    all.resize(good);
  };
  const size_t before = data.size();
  keep_good(data.texts, &TextExample::labels);
  keep_good(data.sentences, &TaggedSentence::tags);
  for (TextExample& row : data.texts) std::ranges::sort(row.labels);
  if (data.size() == 0 && before > 0)
    throw Error(fmt::format("none of the {} rows of {} has a label that the model knows", before, data.file),
                "data with the model's labels", "data");
  data.labels = labels;
  return data;
}

}  // namespace bertie
