#pragma once
// Labelled data as people have it: tables (CSV, TSV, JSON lines), CoNLL columns, SQuAD's JSON; plain or
// packed with gzip, xz or Zstandard. docs/finetuning.md has a section for each format.
//
//   bertie::Dataset data = bertie::read_dataset(bertie::TaskKind::kClassify, "reviews.csv");
//   data.labels;            // {"bad", "good"}
//   data.texts[0].a;        // "A fine film."
//
// The format is recognized by what the file holds, and Dataset::found says what was found.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/config.h"
#include "bertie/error.h"
#include "bertie/export.h"

namespace bertie {

// What a model is fine-tuned and evaluated for.
enum class TaskKind {
  kClassify,  // a text: one class of several, several labels, or a number
  kPair,      // two texts: the same
  kTag,       // each word of a sentence: a label
  kAnswer,    // a question: where a context answers it
};
BERTIE_API std::string_view name_of(TaskKind kind);  // "classify", "pair", "tag", "answer"

// A row of kClassify and kPair.
struct TextExample {
  std::string a = {}, b = {};        // b: of a pair
  std::vector<int32_t> labels = {};  // places in Dataset::labels: one, or with kMultiLabel any number
  double value = 0;                  // kRegression
  size_t line = 0;                   // of its file, from 1
};

// A sentence of kTag.
struct TaggedSentence {
  std::vector<std::string> words = {};
  std::vector<int32_t> tags = {};  // a place in Dataset::labels for each word
  size_t line = 0;                 // of its first word
};

// A question of kAnswer. Places count code points of the context.
struct SquadQuestion {
  struct Answer {
    std::string text = {};
    size_t start = 0;
  };
  std::string id = {}, question = {}, context = {};
  std::vector<Answer> answers = {};  // empty where there is none in the context
  size_t line = 0;                   // 0 where the format has no lines
};

struct DatasetOptions {
  // Columns by name, or by number from 1; empty: found by their usual names ("sentence", "text", "label" …).
  // `label` may name several with commas between ("toxic,insult"): each says 0 or 1 for the label of its
  // name. kTag: `text` has the words and `label` the tags; kAnswer: question, context and answers.
  std::string text = {}, text_pair = {}, label = {};
  // What labels are. kUnset: numbers with fractions are a regression, lists of labels several labels,
  // anything else classes. Data that goes with other data should be given that data's problem: five rows may
  // have no fraction in them, or no list.
  Problem problem = Problem::kUnset;
  bool labels_needed = true;  // false: rows without labels are good, to be predicted
  // kAnswer: an answer that does not stand where it says makes a bad row. False for scoring, which looks at
  // answers' texts alone, as SQuAD's scripts do.
  bool places_needed = true;
  // Error for a row that cannot be used, with its file, line and reason. True: such rows are left out, told
  // to `bad_row` and counted. A row is bad that cannot be read, has an empty text or no label.
  bool skip_bad = false;
  std::function<void(const Error& error)> bad_row = {};
  bool strict = false;  // a row that is not valid UTF-8 is bad; otherwise its bad bytes are read as U+FFFD
};

struct Dataset {
  TaskKind kind = TaskKind::kClassify;
  Problem problem = Problem::kSingleLabel;  // kClassify and kPair
  // In the order of their names, but numbers by value; tags as IOB2 with "O" first, and with "B-" and "I-" of
  // every kind. Empty for a regression.
  std::vector<std::string> labels = {};
  std::vector<TextExample> texts = {};         // kClassify, kPair
  std::vector<TaggedSentence> sentences = {};  // kTag
  std::vector<SquadQuestion> questions = {};   // kAnswer
  std::string number_name = {};                // of a regression: what its column is called
  std::string file = {};
  std::string found = {};          // the format, in words: "TSV without quotes, columns sentence and label"
  size_t bad_rows = 0;             // left out by skip_bad
  size_t invalid_rows = 0;         // that are not valid UTF-8, and were mended
  std::string first_invalid = {};  // where the first of them is: "reviews.csv:7"
  bool labeled = true;             // false: rows have no labels, or some of them have none
  bool no_answers = false;         // kAnswer: some questions have none, as in SQuAD 2.0

  size_t size() const { return texts.size() + sentences.size() + questions.size(); }
};

// "-" is standard input. Throws Error.
BERTIE_API Dataset read_dataset(TaskKind kind, const std::string& file, const DatasetOptions& options = {});

// Error where a model would learn nothing from it: one class only, or a class of its own for every row.
BERTIE_API void check_learnable(const Dataset& data);
// How many rows of kClassify and kPair have a class that no other row has.
BERTIE_API size_t lone_rows(const Dataset& data);

// The same rows with their labels as places in `labels`, which may be more. A row whose label is not among
// them is bad: an Error that names it, or left out as the options say. Where none of the data's labels is,
// and all are whole numbers, they are places: 1 is NEGATIVE and POSITIVE's POSITIVE, as in GLUE's files.
BERTIE_API Dataset with_labels(Dataset data, const std::vector<std::string>& labels,
                               const DatasetOptions& options = {});

struct SplitDataset {
  Dataset train, dev;
};
// Takes a share of the rows out for evaluation: of each class (and for kTag and kAnswer by sentences and
// contexts) the same share, at least one row where there are two, unless that were a fifth of all rows. The
// same seed gives the same split.
BERTIE_API SplitDataset split(Dataset data, double dev_share, uint64_t seed);

}  // namespace bertie
