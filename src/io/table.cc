#include "io/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/json.h"
#include "io/quote.h"

namespace bertie::io {
namespace {

constexpr const char* kJsonHint = "each line is a JSON object: {\"text\": \"…\", \"label\": \"…\"}";

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t json_spaces(std::string_view text) {
  return size_t(std::find_if_not(text.begin(), text.end(), is_json_space) - text.begin());
}

// Off the front of a row's text; its problem where it cannot be used.
void parse_object(std::string_view text, TableRow& row) {
  try {
    row.object = parse_json(text, "this row", {.bytes = kMaxTableRow});
    if (!row.object.is_object()) row.problem.emplace("this row is not a JSON object", kJsonHint);
  } catch (const Error& error) {
    row.problem.emplace(error.what(), kJsonHint);
  }
}

void row_too_long(TableRow& row) {
  row.problem.emplace(fmt::format("this row is longer than {} MB", kMaxTableRow >> 20),
                      "a quote that is not closed, or line ends that are missing, make one row of many");
}

std::string fields_text(size_t count) { return fmt::format("{} field{}", count, count == 1 ? "" : "s"); }

}  // namespace

// UTF-16 is what Excel calls "Unicode text".
void check_is_text(std::string_view sample, const std::string& name) {
  const std::string_view start = sample.substr(0, 4096);
  const auto zeros = size_t(std::count(start.begin(), start.end(), '\0'));
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF") || 4 * zeros > start.size())
    throw Error(fmt::format("{} is no text in UTF-8: it has zero bytes in it, or is marked as UTF-16", name),
                "iconv -f UTF-16 -t UTF-8 converts a text in UTF-16");
  const size_t cr = start.find('\r');
  if (cr < start.size() - 1 && sample.find('\n') == sample.npos && !start.starts_with('{') &&
      !start.starts_with('['))
    throw Error(fmt::format("the lines of {} end with CR alone, as those of old Macs", name),
                "tr '\\r' '\\n' < FILE > OTHER makes them usual ones");
}

bool is_blank_line(std::string_view text) {
  return text.starts_with('\n') || text.starts_with("\r\n") || text == "\r";
}

TableRecord read_record(std::string_view text, bool ended, const TableFormat& format,
                        std::vector<std::string>& fields) {
  using enum TableRecord::State;
  TableRecord record;
  fields.clear();
  const auto bad = [&](const char* problem) {
    record.state = kBad;
    record.bytes = std::min(text.find('\n'), text.size() - 1) + 1;
    record.problem = problem;
    return record;
  };
  const auto needs_more = [&] {
    record.state = kNeedsMore;
    return record;
  };
  const char ends[] = {format.delimiter, '\n'};
  for (size_t at = 0;;) {
    if (fields.size() > kMaxTableColumns) return bad("this row has more than 4096 fields");
    std::string& field = fields.emplace_back();
    if (!format.quotes || at == text.size() || text[at] != '"') {
      const size_t end = std::min(text.find_first_of({ends, 2}, at), text.size());
      if (end == text.size() && !ended) return needs_more();
      field.assign(text, at, end - at);
      at = end + 1;
      if (end < text.size() && text[end] == format.delimiter) continue;
      if (field.ends_with('\r')) field.pop_back();
      record.bytes = std::min(at, text.size());
      return record;
    }
    record.quoted = true;
    for (++at;;) {  // to the closing quote
      const size_t quote = text.find('"', at);
      if (quote == text.npos) return ended ? bad("a quote is not closed") : needs_more();
      field.append(text, at, quote - at);
      at = quote + 1;
      if (at == text.size() && !ended) return needs_more();
      if (at == text.size() || text[at] != '"') break;
      record.doubled = true;
      field += '"';
      ++at;
    }
    if (text.substr(at) == "\r" && !ended) return needs_more();
    if (text.substr(at).starts_with("\r\n") || text.substr(at) == "\r") ++at;
    if (at == text.size() || text[at] == '\n') {
      record.bytes = std::min(at + 1, text.size());
      return record;
    }
    if (text[at] != format.delimiter)
      return bad("something follows a closing quote: within quotes, a quote is written twice");
    ++at;
  }
}

size_t json_value_end(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      if (!in_string && depth == 0) return i + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return i;  // of a bare word, before the end of its array
      if (--depth == 0) return i + 1;
    } else if (c == ',' && depth == 0) {
      return i;
    }
  }
  return text.npos;
}

TableReader::TableReader(const std::string& path, const TableHints& hints)
    : TableReader(std::make_unique<TextWindow>(path), table_extension(path), hints) {}

TableReader::TableReader(std::unique_ptr<TextWindow> window, std::string_view extension,
                         const TableHints& hints)
    : window_(std::move(window)) {
  const std::string_view sample = window_->fill(kTableSample);
  check_is_text(sample, file().name());
  format_ = recognize_table(sample, window_->ended(), extension, hints);
  name_columns();
}

void TableReader::name_columns() {
  if (format_.json()) {
    for (const TableRow& row : ahead(100)) {
      if (row.problem) continue;
      for (const auto& item : row.object.items())
        if (std::ranges::find(columns_, item.key()) == columns_.end() && columns_.size() < kMaxTableColumns)
          columns_.push_back(item.key());
    }
  } else if (format_.header) {
    TableRow first;
    if (!read_next(first)) return;
    if (first.problem)
      throw Error(fmt::format("{}:{}: the first row should name the columns, but: {}", file().name(),
                              first.line, first.problem->what()),
                  first.problem->hint());
    columns_ = std::move(first.fields);
  } else {
    for (size_t rows = 1; rows <= 100 && ahead(rows).size() == rows; ++rows)
      if (const TableRow& row = ahead_.back(); !row.problem) {
        for (size_t i = 1; i <= row.fields.size(); ++i) columns_.push_back(std::to_string(i));
        return;
      }
  }
}

const std::deque<TableRow>& TableReader::ahead(size_t rows) {
  for (TableRow row; ahead_.size() < rows && read_next(row);) ahead_.push_back(std::move(row));
  return ahead_;
}

bool TableReader::next(TableRow& row) {
  if (ahead_.empty()) return read_next(row);
  row = std::move(ahead_.front());
  ahead_.pop_front();
  return true;
}

bool TableReader::read_next(TableRow& row) {
  row.fields.clear();
  row.object = nullptr;
  row.problem.reset();
  switch (format_.kind) {
    case TableFormat::Kind::kJsonLines:
      return next_json_line(row);
    case TableFormat::Kind::kJsonArray:
      return next_json_element(row);
    case TableFormat::Kind::kDelimited:
      break;
  }
  return next_delimited(row);
}

bool TableReader::next_delimited(TableRow& row) {
  while (window_->fill(2), is_blank_line(window_->text())) window_->skip_line();
  row.line = window_->line();
  if (window_->text().empty()) return false;
  TableRecord record;
  while (true) {
    record = read_record(window_->text(), window_->ended(), format_, row.fields);
    if (record.state != TableRecord::State::kNeedsMore) break;
    if (window_->text().size() > kMaxTableRow) {
      row_too_long(row);
      window_->skip_line();  // of a row in quotes, the others are read again without them
      return true;
    }
    window_->more();
  }
  const bool has_zeros = window_->text().substr(0, record.bytes).find('\0') != std::string_view::npos;
  window_->take(record.bytes);
  if (record.bytes > kMaxTableRow)
    row_too_long(row);
  else if (record.problem)
    row.problem.emplace(record.problem);
  else if (has_zeros)
    row.problem.emplace("this row has a zero byte in it");
  else if (!columns_.empty() && row.fields.size() != columns_.size())
    row.problem.emplace(fmt::format("{} where {} {}", fields_text(row.fields.size()),
                                    format_.header ? "the header has" : "the first row has", columns_.size()),
                        format_.quotes ? "a field that has the delimiter in it stands in quotes"
                                       : "one tab between two fields");
  return true;
}

bool TableReader::next_json_line(TableRow& row) {
  while (true) {
    const size_t end = window_->line_end(kMaxTableRow);
    row.line = window_->line();
    if (end == std::string_view::npos) {
      row_too_long(row);
      window_->skip_line();
      return true;
    }
    if (end == 0) return false;
    const std::string_view line = window_->text().substr(0, end);
    const bool blank = json_spaces(line) == line.size();
    if (!blank) parse_object(without_line_end(line), row);
    window_->take(end);
    if (!blank) return true;
  }
}

bool TableReader::next_json_element(TableRow& row) {
  const auto skip_spaces = [&] {
    do window_->take(json_spaces(window_->text()));
    while (window_->text().empty() && window_->more());
    return !window_->text().empty();
  };
  const auto broken = [&](const char* problem) {
    row.line = window_->line();
    row.problem.emplace(problem, "[{…}, {…}] is an array of objects");
    window_->take(window_->text().size());
    after_array_ = true;
    return true;
  };
  if (after_array_ || !skip_spaces()) return false;
  if (!std::exchange(in_array_, true)) {
    window_->take(1);  // the bracket that it was recognized by
    if (!skip_spaces()) return broken("the JSON array is not closed");
    if (window_->text()[0] == ']') return after_array_ = true, false;
  }
  row.line = window_->line();
  size_t end;
  while ((end = json_value_end(window_->text())) == std::string_view::npos) {
    if (window_->text().size() > kMaxTableRow) {
      row_too_long(row);
      return after_array_ = true;
    }
    if (!window_->more()) return broken("the JSON array is not closed");
  }
  if (end == 0) return broken("there is no value between two commas of the JSON array");
  parse_object(window_->text().substr(0, end), row);
  window_->take(end);
  const size_t line = row.line;
  if (!skip_spaces()) return row.problem ? true : broken("the JSON array is not closed");
  const char after = window_->text()[0];
  if (after != ',' && after != ']') return broken("there is no comma after this object of the JSON array");
  window_->take(1);
  after_array_ = after == ']';
  row.line = line;
  if (!after_array_ && !skip_spaces()) return broken("the JSON array is not closed");
  return true;
}

}  // namespace bertie::io
