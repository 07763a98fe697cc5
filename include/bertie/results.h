#pragma once
// What the tasks of a TextModel take and give. Each result says what happened to its input: how many tokens
// were read, and whether it was cut. Places in texts are code points (Offset, tokenizer.h).
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bertie/export.h"
#include "bertie/tokenizer.h"
#include "bertie/view.h"

namespace bertie {

// Many texts: any array or vector of std::string, std::string_view or const char*. A view: what it was made
// from must live as long as it is used.
class Texts {
 public:
  Texts() = default;
  template <class Range>
  requires requires(const Range& r) {
    { std::size(r) } -> std::convertible_to<size_t>;
    { *std::data(r) } -> std::convertible_to<std::string_view>;
  }
  Texts(const Range& texts)
      : data_(std::data(texts)), size_(std::size(texts)), at_([](const void* data, size_t i) {
          using Text = std::remove_pointer_t<decltype(std::data(texts))>;
          return std::string_view(static_cast<const Text*>(data)[i]);
        }) {}

  size_t size() const { return size_; }
  std::string_view operator[](size_t i) const { return at_(data_, i); }

 private:
  const void* data_ = nullptr;
  size_t size_ = 0;
  std::string_view (*at_)(const void*, size_t) = nullptr;
};

// embed({"a", "b"}): without a function that takes these, C++ would make one text of the two pointers.
using TextList = std::initializer_list<std::string_view>;

struct TextPair {
  std::string_view a, b;
};

struct Question {
  std::string_view question, context;
};

// Called between batches of a call with many inputs, with how many are done. Throwing from it ends the call.
using ProgressCallback = std::function<void(size_t done, size_t of)>;

// A text's vector.
struct Embedding {
  std::vector<float> values;
  size_t tokens = 0;       // that were read
  bool truncated = false;  // the text had more
  size_t windows = 1;      // that it went in
};

// The same, where the numbers went into a matrix of the caller's.
struct EmbeddedRow {
  size_t tokens = 0;
  bool truncated = false;
  size_t windows = 1;
};

struct EmbedOptions {
  std::optional<bool> normalize = {};  // to length 1; nothing: as the model's files say
  std::string_view prefix = {};        // goes before each text: "query: ", as some models want it
  // A text of more tokens than the model takes goes in windows, and its vector is the mean of theirs, weighed
  // by their tokens. Without it, such a text is cut.
  bool windows = false;
  ProgressCallback progress = {};
};

// The vectors of a text's tokens after the last layer.
struct TokenVectors {
  std::vector<float> values;  // (tokens, hidden size), row-major
  size_t tokens = 0;
  bool truncated = false;
};

// Attention weights for one text or pair: how much each token looks at each other one.
struct BERTIE_API Attention {
  std::vector<std::string> tokens;  // n of them, [CLS] and [SEP] included
  Encoding encoding;                // their ids and places in the text
  size_t layers = 0, heads = 0;     // of the model
  std::vector<size_t> kept;         // the layers whose weights are here, from 0, ascending
  std::vector<float> weights;       // (kept, heads, n, n), row-major

  size_t n() const { return tokens.size(); }
  // Of a layer of the model: rows look, columns are looked at; each row sums to 1, but for Linformer's and
  // Nyström's, which approximate it, and for heads that were pruned, which have zeros. Error if it is not
  // kept.
  Matrix<const float> at(size_t layer, size_t head) const;
};

struct AttendOptions {
  std::vector<size_t> layers = {};  // from 0; empty: all. The weights are the same whichever are kept
};

// What may stand at one mask.
struct Fill {
  int32_t id = 0;
  std::string token;     // as text: no "Ġ", no "▁"; a piece that goes on with a word keeps its "##"
  std::string sequence;  // the text with this mask filled and other masks left
  float score = 0;
};

struct MaskFilling {
  std::vector<std::vector<Fill>> masks;  // for each mask of the text, best first
  size_t tokens = 0;
  bool truncated = false;
};

struct FillMaskOptions {
  size_t top = 5;
  // The only candidates, where there are any; of one that is several tokens the first counts.
  std::vector<std::string> targets = {};
  ProgressCallback progress = {};
};

struct NextSentence {
  float is_next = 0;  // how likely b follows a (BERT) or stands in the right order after it (ALBERT)
  size_t tokens = 0;
  bool truncated = false;
};

struct NextSentenceOptions {
  ProgressCallback progress = {};
};

// How likely a token is where it stands. Logarithms are natural.
struct TokenScore {
  int32_t id = 0;
  std::string token;  // as text; a piece that goes on with a word keeps its "##"
  Offset offset;      // its place in the text
  int32_t word = 0;   // pieces of one word have the same number
  double log_probability = 0;
  int32_t likeliest_id = 0;  // what the model would have put there
  std::string likeliest = {};
  double likeliest_log_probability = 0;
};

// How likely a text is. A masked model judges each token by all others (the pseudo-log-likelihood), a causal
// one by those before it.
struct BERTIE_API TextScore {
  std::vector<TokenScore> scores;  // of each token, without [CLS] and [SEP]
  size_t tokens = 0;
  bool truncated = false;

  double log_probability() const;  // the sum
  double perplexity() const;       // exp of minus the mean; NaN of a text without tokens
};

struct TextScoreOptions {
  ProgressCallback progress = {};
};

struct Scored {
  std::string label;
  float score = 0;
};

struct Classification {
  std::vector<Scored> labels;  // all of them, best first
  size_t tokens = 0;
  bool truncated = false;
};

// How a classifier's logits become scores.
enum class Apply {
  kByProblem,  // one label of several: softmax; labels that do not exclude each other, or a single one:
               // sigmoid; a regression: nothing
  kSoftmax,
  kSigmoid,
  kNothing,
};

struct ClassifyOptions {
  Apply apply = Apply::kByProblem;
  ProgressCallback progress = {};
};

// One entity of a text, or one token of it.
struct Entity {
  std::string label;
  float score = 0;
  std::string text;                    // what the text says there
  std::string word;                    // the same as its tokens spell it
  Offset offset;                       // where in the text
  size_t first_token = 0, tokens = 1;  // of the whole text's tokens, special ones counted
};

struct Tagging {
  std::vector<Entity> entities;  // in the order of the text
  size_t windows = 1;            // that the text went in; more than one where it is longer than max_length
};

// How tokens become entities; transformers' aggregation_strategy.
enum class Aggregation {
  kNone,     // every token by itself
  kSimple,   // neighbors with the same label; B- begins a new one
  kFirst,    // a word has its first token's label
  kAverage,  // … the label of its tokens' mean scores
  kMax,      // … the label of its token with the highest score
};

struct TagOptions {
  // Nothing: kFirst where the model learned labels of first pieces alone (Config::labels_first_pieces), else
  // kSimple, transformers' usual one.
  std::optional<Aggregation> aggregation = {};
  std::optional<size_t> stride =
      {};                     // tokens that windows of a long text share; 64, or less for a short model
  bool keep_outside = false;  // also what has the label "O"
  ProgressCallback progress = {};
};

struct Answer {
  std::string text;  // cut from the context; empty: there is none in it
  float score = 0;
  Offset offset;  // where in the context
};

struct Answering {
  std::vector<Answer> answers;      // best first
  size_t windows = 1;               // that the context went in
  bool question_truncated = false;  // it had more than max_question_tokens
};

struct AnswerOptions {
  size_t top = 1;
  size_t max_answer_tokens = 15;
  size_t max_question_tokens = 64;        // longer ones are cut
  std::optional<size_t> max_length = {};  // of a window, all tokens counted; 384, or what the model takes
  std::optional<size_t> stride = {};      // tokens that windows share; 128, or half of a short window
  bool allow_no_answer = false;           // "there is no answer" competes, as in SQuAD 2.0
  bool whole_words = true;                // answers begin and end with words, not with pieces of them
  ProgressCallback progress = {};
};

enum class FinishReason {
  kMaxNewTokens,  // max_new_tokens were made
  kEndOfText,     // the model made its end of text, or one of stop_ids
  kByCaller,      // on_text returned false
  kModelLength,   // the model can read no more
};

struct Generation {
  std::vector<int32_t> ids;  // the new ones, an end of text included
  std::string text;          // of them
  FinishReason finish_reason = FinishReason::kMaxNewTokens;
  size_t prompt_tokens = 0;     // that were read
  size_t prompt_truncated = 0;  // tokens at the start of a long prompt that were not
};

struct GenerateOptions {
  size_t max_new_tokens = 50;
  double temperature = 0;  // 0: greedy, always the likeliest token
  size_t top_k = 0;        // draw from the k likeliest; 0: all
  double top_p = 1;        // draw from the likeliest that together have this probability
  double repetition_penalty = 1;
  uint64_t seed = 1;                   // the same seed draws the same text on every machine
  std::vector<int32_t> stop_ids = {};  // that end the text; empty: the model's end of text
  // Called with each new piece of text as soon as it is whole UTF-8; return false to stop. For one prompt.
  std::function<bool(std::string_view)> on_text = {};
  ProgressCallback progress = {};
};

// A number that says how good something is.
struct NamedScore {
  std::string name;  // "accuracy", "f1", "matthews", "pearson", "exact_match" …
  double value = 0;  // from 0 to 1, correlations from −1, errors from 0; NaN where it is not defined
  double low = 0, high = 0;  // the interval, where one was asked for; else equal to value
  bool higher_is_better = true;
};

}  // namespace bertie
