#include "train/data/unlabeled.h"

#include "io/table.h"
#include "train/data/conll.h"
#include "train/data/dataset_rows.h"

namespace bertie {
namespace {

// A table's name says so. Sentences in columns are recognized by what they hold.
bool is_plain_text(TaskKind kind, const std::string& file, const DatasetOptions& options) {
  if (kind == TaskKind::kPair || kind == TaskKind::kAnswer || !options.text.empty()) return false;
  const std::string extension = io::table_extension(file);
  for (const char* table : {"csv", "tsv", "json", "jsonl", "ndjson", "conll", "conllu"})
    if (extension == table) return false;
  io::TextWindow window(file);
  return kind == TaskKind::kClassify || !looks_like_conll(window.fill(io::kTableSample));
}

void read_lines(Dataset& data, const DatasetOptions& options, const std::string& file) {
  data.found = "plain text, a row a line";
  DatasetRows rows(data, options);
  io::TextWindow window(file);
  for (size_t end; (end = window.line_end(io::kMaxTableRow)) > 0;) {
    const size_t line = window.line();
    if (end == std::string_view::npos) {
      rows.bad(line, Error("the line is too long"));
      window.skip_line();
      continue;
    }
    std::string text(io::without_line_end(window.text().substr(0, end)));
    window.take(end);
    std::vector<std::string> words;
    for (size_t at = 0; (at = text.find_first_not_of(" \t\r", at)) != text.npos;) {
      const size_t stop = std::min(text.find_first_of(" \t\r", at), text.size());
      words.push_back(text.substr(at, stop - at));
      at = stop;
    }
    if (words.empty()) continue;
    if (data.kind == TaskKind::kTag) {
      rows.make_valid(line, words);
      data.sentences.push_back({.words = std::move(words), .line = line});
    } else {
      rows.make_valid(line, {&text});
      data.texts.push_back({.a = std::move(text), .line = line});
    }
  }
}

}  // namespace

Dataset read_unlabeled(TaskKind kind, const std::string& file, const DatasetOptions& given) {
  DatasetOptions options = given;
  options.labels_needed = false;
  Dataset data{.kind = kind, .file = file};
  if (is_plain_text(kind, file, options)) {
    read_lines(data, options, file);
    if (data.size() == 0) throw Error(data.file + " has no rows", "", "unlabeled_file");
  } else {
    data = read_dataset(kind, file, options);
  }
  for (TextExample& row : data.texts) row.labels.clear();
  for (TaggedSentence& sentence : data.sentences) sentence.tags.clear();
  for (SquadQuestion& question : data.questions) question.answers.clear();
  data.labels.clear();
  data.labeled = data.no_answers = false;
  return data;
}

}  // namespace bertie
