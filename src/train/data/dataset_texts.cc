// Labelled texts and pairs out of tables.
#include <fmt/format.h>

#include <utility>

#include "io/quote.h"
#include "text/unicode/unicode.h"
#include "train/data/columns.h"
#include "train/data/dataset_rows.h"
#include "train/data/labels.h"

namespace bertie {
namespace {

void check_not_empty(const std::string& text, const char* what) {
  if (text::leading_whitespace(text) == text.size()) throw Error(fmt::format("{} is empty", what));
}

WrittenLabel label_in(const io::TableReader& reader, const io::TableRow& row, size_t column) {
  return reader.format().json() ? label_in_json(json_field(reader, row, column))
                                : label_in_text(row.fields[column]);
}

// The names of the columns that say 1. A row in which no column says anything has no label.
WrittenLabel labels_that_hold(const io::TableReader& reader, const io::TableRow& row,
                              const std::vector<size_t>& columns, const std::vector<std::string>& names) {
  WrittenLabel label{.list = true};
  size_t missing = 0;
  for (size_t i = 0; i < columns.size(); ++i) try {
      const std::optional<bool> holds = truth_of(label_in(reader, row, columns[i]));
      missing += !holds;
      if (holds.value_or(false)) label.names.push_back(names[i]);
    } catch (const Error& error) {
      throw Error(fmt::format("column {} has {}", io::quote(names[i]), error.what()));
    }
  if (missing == columns.size()) return {.missing = true};
  if (missing > 0) throw Error("some of the labels are empty, others not");
  return label;
}

}  // namespace

void read_texts(Dataset& data, const DatasetOptions& options, const std::string& path) {
  const bool pair = data.kind == TaskKind::kPair;
  const WantedColumns wanted{.kind = data.kind,
                             .text = options.text,
                             .text_pair = pair ? options.text_pair : "",
                             .label = options.label,
                             .label_wanted = options.labels_needed};
  io::TableReader reader(path, table_hints(wanted));
  data.found = describe(reader.format());
  DatasetRows rows(data, options);
  if (reader.columns().empty()) return rows.bad_all(reader);
  const FoundColumns columns = find_columns(reader, wanted);
  data.found += ", " + describe(reader, columns);

  std::vector<std::string> truths;  // names of the columns that say 0 or 1
  for (const size_t column : columns.truths) truths.push_back(reader.columns()[column]);
  rows.make_valid(1, truths);

  LabelColumn labels;
  for (io::TableRow row; reader.next(row);) try {
      if (row.problem) throw Error(*row.problem);
      TextExample example{.line = row.line};
      WrittenLabel label{.missing = true};
      if (!columns.truths.empty())
        label = labels_that_hold(reader, row, columns.truths, truths);
      else if (columns.label)
        label = label_in(reader, row, *columns.label);
      example.a = text_field(reader, row, columns.text);
      if (columns.text_pair) example.b = text_field(reader, row, *columns.text_pair);
      if (!label.missing) {
        check_not_empty(example.a, pair ? "the first text" : "the text");
        if (pair) check_not_empty(example.b, "the second text");
      }
      rows.make_valid(row.line, {&example.a, &example.b});
      for (std::string& name : label.names) rows.make_valid(row.line, {&name});
      data.texts.push_back(std::move(example));
      labels.add(std::move(label));
    } catch (const Error& error) {
      rows.bad(row.line, error);
    }

  data.problem = labels.settle(options.problem);
  if (data.problem == Problem::kRegression && columns.label &&
      (reader.format().json() || reader.format().header))
    data.number_name = reader.columns()[*columns.label];
  data.labels = truths.empty() ? labels.names() : truths;
  const LabelPlaces places(data.labels);
  std::vector<TextExample> good;
  for (size_t i = 0; i < data.texts.size(); ++i) try {
      TextExample& example = data.texts[i];
      if (labels.missing(i) && options.labels_needed) throw Error("there is no label");
      labels.put(i, places, example);
      data.labeled &= !labels.missing(i);
      good.push_back(std::move(example));
    } catch (const Error& error) {
      rows.bad(data.texts[i].line, error);
    }
  data.texts = std::move(good);
}

}  // namespace bertie
