// How a table is written, from its first megabyte.
#include <fmt/format.h>

#include <algorithm>

#include "core/checked.h"
#include "io/table.h"

namespace bertie::io {
namespace {

constexpr size_t kSampleRows = 5000;

// What a sample looks like, read in one way.
struct Reading {
  TableFormat format;
  std::vector<std::string> first = {};  // row
  size_t rows = 0, misfits = 0;         // rows that have not as many fields as the first, or cannot be read
  bool doubled = false, quoted_header = false;
  bool recurs = false;  // a field of the first row stands in its column again

  double fitting() const { return rows == 0 ? 0 : double(rows - misfits) / double(rows); }
  bool has_columns() const { return first.size() > 1; }
};

Reading read_sample(std::string_view sample, bool ended, const TableFormat& format) {
  Reading reading{.format = format};
  std::vector<std::string> fields;
  while (!sample.empty() && reading.rows < kSampleRows) {
    if (is_blank_line(sample)) {
      sample.remove_prefix(std::min(sample.find('\n'), sample.size() - 1) + 1);
      continue;
    }
    const TableRecord record = read_record(sample, ended, format, fields);
    if (record.state == TableRecord::State::kNeedsMore) break;
    sample.remove_prefix(record.bytes);
    const bool whole = record.state == TableRecord::State::kWhole;
    if (reading.rows++ == 0 && whole) {
      reading.first = fields;
      reading.quoted_header = record.quoted;
      continue;
    }
    const bool fits = whole && fields.size() == reading.first.size();
    reading.misfits += !fits;
    reading.doubled |= whole && record.doubled;
    for (size_t i = 0; fits && i < fields.size(); ++i)
      reading.recurs |= !fields[i].empty() && fields[i] == reading.first[i];
  }
  return reading;
}

// Tabs: quotes mean something where rows come out right with them alone, or where nothing speaks against it
// and somebody has doubled a quote or put the header's names in quotes. GLUE's do not.
Reading read_tabs(std::string_view sample, bool ended) {
  Reading literal = read_sample(sample, ended, {.delimiter = '\t', .quotes = false});
  Reading quoted = read_sample(sample, ended, {.delimiter = '\t', .quotes = true});
  const bool quotes = quoted.misfits < literal.misfits || (quoted.misfits == 0 && literal.misfits == 0 &&
                                                           (quoted.doubled || quoted.quoted_header));
  return quotes ? quoted : literal;
}

bool has_header(const Reading& reading, const TableHints& hints) {
  if (hints.header) return *hints.header;
  const auto known = std::ranges::count_if(reading.first, [&](const std::string& name) {
    return hints.is_column_name && hints.is_column_name(name);
  });
  if (known > 1) return true;
  if (reading.recurs) return false;
  const bool numbers = std::ranges::any_of(reading.first, [](const std::string& field) {
    double number;
    return parse_number(field, number);
  });
  return known > 0 || (hints.header_expected && !numbers);
}

}  // namespace

bool begins_json_object(std::string_view text) {
  const size_t brace = text.find_first_not_of(" \t\r\n");
  if (brace == text.npos || text[brace] != '{') return false;
  const size_t next = text.find_first_not_of(" \t\r\n", brace + 1);
  return next != text.npos && (text[next] == '"' || text[next] == '}');
}

std::string table_extension(std::string_view path) {
  const auto last = [&] {
    const size_t dot = path.rfind('.');
    std::string extension(dot == path.npos || path.find('/', dot) != path.npos ? "" : path.substr(dot + 1));
    for (char& c : extension)
      if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    return extension;
  };
  std::string extension = last();
  if (extension == "gz" || extension == "xz" || extension == "zst") {
    path.remove_suffix(extension.size() + 1);
    extension = last();
  }
  return extension;
}

TableFormat recognize_table(std::string_view sample, bool ended, std::string_view extension,
                            const TableHints& hints) {
  const bool delimited_name = extension == "csv" || extension == "tsv";
  if (!delimited_name && begins_json_object(sample)) return {.kind = TableFormat::Kind::kJsonLines};
  if (const size_t bracket = sample.find_first_not_of(" \t\r\n");
      !delimited_name && bracket != sample.npos && sample[bracket] == '[' &&
      (extension == "json" || begins_json_object(sample.substr(bracket + 1))))
    return {.kind = TableFormat::Kind::kJsonArray};
  if (extension == "jsonl" || extension == "ndjson" || extension == "json")
    return {.kind = TableFormat::Kind::kJsonLines};  // whose first line is broken

  const Reading tabs = read_tabs(sample, ended);
  const Reading commas = read_sample(sample, ended, {.delimiter = ','});
  const Reading semicolons = read_sample(sample, ended, {.delimiter = ';'});
  const Reading* best = extension == "tsv" ? &tabs : &commas;
  if (!delimited_name || !best->has_columns()) {
    const Reading* fitting = nullptr;
    for (const Reading* reading : {&tabs, &commas, &semicolons})
      if (reading->has_columns() && (!fitting || reading->fitting() > fitting->fitting())) fitting = reading;
    if (fitting) best = fitting;
  }
  TableFormat format = best->format;
  format.header = has_header(*best, hints);
  return format;
}

std::string describe(const TableFormat& format) {
  if (format.kind == TableFormat::Kind::kJsonLines) return "JSON lines";
  if (format.kind == TableFormat::Kind::kJsonArray) return "a JSON array of objects";
  std::string text = format.delimiter != '\t' ? "CSV"
                     : format.quotes          ? "TSV with quotes"
                                              : "TSV without quotes";
  if (format.delimiter == ';') text += " with semicolons";
  if (!format.header) text += ", no header";
  return text;
}

}  // namespace bertie::io
