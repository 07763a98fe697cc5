#pragma once
// Results as JSON, one line each, for the command line, a service and other languages. docs/json.md has the
// schema. Numbers have as many digits as it takes to read the same number back; what is not finite is null.
// Strings are valid UTF-8 whatever came in, and have no line ends and no control characters in them.
//
//   bertie::to_json(model.classify(text), {.index = 0, .text = text});
//   // {"index":0,"text":"A fine film.","labels":[{"label":"POSITIVE","score":0.9998}],…}
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/convert.h"
#include "bertie/data.h"
#include "bertie/evaluate.h"
#include "bertie/explain.h"
#include "bertie/export.h"
#include "bertie/finetune.h"
#include "bertie/heads.h"
#include "bertie/hub.h"
#include "bertie/info.h"
#include "bertie/results.h"
#include "bertie/senses.h"
#include "bertie/similarity.h"
#include "bertie/tokenizer.h"
#include "bertie/train.h"

namespace bertie {

// What an object begins with, before the result's own fields: which input it is of, and the input.
struct JsonInput {
  std::optional<size_t> index = {};  // from 0
  std::optional<std::string_view> text = {};
  std::optional<std::string_view> a = {}, b = {};  // of a pair
  std::optional<std::string_view> question = {}, context = {};
  std::optional<size_t> window = {};  // of a long text's windows, from 0
};

BERTIE_API std::string to_json(const Embedding& embedding, const JsonInput& input = {});
BERTIE_API std::string to_json(std::span<const float> vector, const EmbeddedRow& row,
                               const JsonInput& input = {});
BERTIE_API std::string to_json(const Attention& attention, const JsonInput& input = {});
BERTIE_API std::string to_json(const MaskFilling& filling, const JsonInput& input = {});
BERTIE_API std::string to_json(const TextScore& score, const JsonInput& input = {});
BERTIE_API std::string to_json(const NextSentence& next, const JsonInput& input = {});
BERTIE_API std::string to_json(const Classification& classification, const JsonInput& input = {});
BERTIE_API std::string to_json(const Tagging& tagging, const JsonInput& input = {});
BERTIE_API std::string to_json(const Answering& answering, const JsonInput& input = {});
BERTIE_API std::string to_json(const Generation& generation, const JsonInput& input = {});
BERTIE_API std::string to_json(const Encoding& encoding, const Tokenizer& tokenizer,
                               const JsonInput& input = {});
BERTIE_API std::string to_json(const AttentionSteps& steps, const JsonInput& input = {});

// rollout()'s weights after so many layers of an attention.
BERTIE_API std::string rollout_to_json(const Attention& attention, const Grid& weights, size_t layers,
                                       const JsonInput& input = {});
// Layers and heads are counted from 1.
BERTIE_API std::string to_json(const HeadsReport& report, std::string_view model);

// A place in a ranking, from 1; the index is that of what was ranked.
BERTIE_API std::string to_json(const Ranked& ranked, size_t rank, const JsonInput& input = {});
// One row of similarity(): a text's score with each other one.
BERTIE_API std::string scores_to_json(std::span<const float> scores, const JsonInput& input = {});

BERTIE_API std::string to_json(const ModelInfo& info);
BERTIE_API std::string to_json(const Conversion& conversion, std::string_view to);
BERTIE_API std::string to_json(const LearnedVocabulary& learned, std::string_view out, double seconds);
BERTIE_API std::string to_json(const Prepared& prepared, std::string_view out, double seconds);
// `resume` is the command that goes on with a run that was stopped.
BERTIE_API std::string to_json(const TrainResult& result, std::string_view resume = {});
BERTIE_API std::string to_json(const PretrainPreview& preview);
BERTIE_API std::string to_json(const LanguageModelScores& scores, std::string_view model);
BERTIE_API std::string to_json(const FinetuneResult& result, std::string_view resume = {});
// With what follows from the vectors, which are not in it: cosines of all layers; groups and plane of one.
BERTIE_API std::string to_json(const Senses& senses, std::string_view word, size_t layer);
BERTIE_API std::string to_json(const PullProgress& progress);
BERTIE_API std::string to_json(const PullResult& result, std::string_view name);
BERTIE_API std::string to_json(const CachedModel& model);

// What an evaluation found, without its row_scores; `model` is its name.
BERTIE_API std::string to_json(const Evaluation& evaluation, std::string_view model = {});
BERTIE_API std::string to_json(const Comparison& comparison);
BERTIE_API std::string to_json(const std::vector<Mistake>& mistakes);  // an array
// What was predicted for one row, and what is right; of answers none is predicted where null_odds are above
// the threshold.
BERTIE_API std::string to_json(const Dataset& data, const Predictions& predictions, size_t row,
                               const ScoreOptions& options = {});

// The same piece by piece, for results whose text may have hundreds of megabytes.
using JsonSink = std::function<void(std::string_view)>;
BERTIE_API void write_json(const Attention& attention, const JsonInput& input, const JsonSink& sink);
BERTIE_API void write_json(const AttentionGradient& gradient, const JsonInput& input, const JsonSink& sink);
BERTIE_API void write_json(const AttentionSteps& steps, const JsonInput& input, const JsonSink& sink);

// The other way round, for lines of input: the strings that a JSON object has under these keys. Throws Error
// where it is no object or has no such string; `name` says what the object is ("line 7").
BERTIE_API std::vector<std::string> strings_in_json(std::string_view object,
                                                    std::span<const std::string_view> keys,
                                                    const std::string& name);

}  // namespace bertie
