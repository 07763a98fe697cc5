#pragma once
// Which columns of a table have the texts and the labels: those that were named, or those with usual names.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/dataset.h"
#include "io/table.h"

namespace bertie {

struct WantedColumns {
  TaskKind kind = TaskKind::kClassify;
  std::string text = {}, text_pair = {}, label = {};  // as in DatasetOptions
  bool label_wanted = true;                           // false: it may be missing
};

struct FoundColumns {
  size_t text = 0;  // from 0, into TableReader::columns()
  std::optional<size_t> text_pair = {}, label = {};
  std::vector<size_t> truths = {};  // instead of a label: each says whether the label of its name holds
};

// Whether columns are often called so, in any letters: what a header is recognized by. Of words and of their
// tags in particular.
bool is_usual_column_name(std::string_view name);
bool is_usual_word_column(std::string_view name);
bool is_usual_tag_column(std::string_view name);
bool is_same_column(std::string_view a, std::string_view b);  // "NER_tag" and "ner tag"
// Hints for a reader: names that were given make the first row a header.
io::TableHints table_hints(const WantedColumns& wanted);

// Throws Error with field "text", "text_pair" or "label", the file's columns and the nearest name.
FoundColumns find_columns(io::TableReader& reader, const WantedColumns& wanted);

// "columns sentence and label"
std::string describe(const io::TableReader& reader, const FoundColumns& found);

// A string of a row as the file has it. Throws Error where JSON has something else there, or nothing.
std::string text_field(const io::TableReader& reader, io::TableRow& row, size_t column);
// The value of a JSON row, or null.
const nlohmann::json& json_field(const io::TableReader& reader, const io::TableRow& row, size_t column);

}  // namespace bertie
