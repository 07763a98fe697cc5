#pragma once
// Texts in, answers out: a model with its head and its tokenizer, loaded together.
//
//   auto pipeline = bertie::Pipeline::load("distilbert-base-uncased-finetuned-sst-2-english");
//   for (const bertie::Scored& s : pipeline.classify("A fine film.")) ...   // {"POSITIVE", 0.9998}, ...
//
// What a checkpoint can do depends on its head; asking for something else is an Error that says what it can.
// Results are those of transformers' pipelines on the same model. A Pipeline belongs to one thread at a time;
// a copy shares the weights and has a workspace of its own.
//
// Every task takes one input, or many: many are sorted by length and go through the model in batches of some
// thousand tokens; results come back in the order of the inputs, and are those of each input alone.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/model.h"
#include "bertie/tokenizer.h"

namespace bertie {

struct TextPair {
  std::string_view a, b;
};

struct Scored {
  std::string label;
  float score = 0;
};

// What may stand at one mask.
struct Fill {
  int32_t id = 0;
  std::string token;     // as text: no "Ġ", no "▁"; a piece that goes on with a word keeps its "##"
  std::string sequence;  // the text with this mask filled and the others left
  float score = 0;
};

// How a classifier's numbers become scores.
enum class Apply {
  kByProblem,  // one label of several: softmax; labels that do not exclude each other, or a single one:
               // sigmoid; a regression: nothing
  kSoftmax,
  kSigmoid,
  kNothing,
};

// One entity of a text, or one token of it.
struct Entity {
  std::string label;
  float score = 0;
  std::string word;                    // as its tokens spell it; text_at(text, place) is what the text says
  Offset place;                        // in code points of the text
  size_t first_token = 0, tokens = 1;  // of the whole text's tokens, special ones counted
};

// How pieces become entities; as transformers' aggregation_strategy.
enum class Group {
  kNone,     // every piece by itself
  kSimple,   // neighbours with the same label; B- begins a new one
  kFirst,    // a word has its first piece's label
  kAverage,  // … the label of its pieces' mean scores
  kMax,      // … the label of its piece with the highest score
};

struct TagOptions {
  Group group = Group::kSimple;
  std::optional<size_t> stride =
      {};                     // tokens that windows of a long text share; 64, or less for a short model
  bool keep_outside = false;  // also what has the label "O"
};

struct Answer {
  std::string text;  // cut from the context; empty: there is none in it
  float score = 0;
  Offset place;
};

struct Question {
  std::string_view question, context;
};

struct AnswerOptions {
  size_t top = 1;
  size_t max_tokens = 15;                 // of an answer
  std::optional<size_t> max_length = {};  // of a window, all tokens counted; 384, or what the model takes
  std::optional<size_t> stride = {};      // tokens that windows share; 128, or half of a short window
  size_t max_question = 64;               // longer ones are cut
  bool may_be_empty = false;              // "there is no answer" competes, as in SQuAD 2.0
  bool whole_words = true;                // answers begin and end with words, not with pieces of them
};

struct GenerateOptions {
  size_t max_new_tokens = 50;
  double temperature = 0;  // 0: greedy, always the likeliest token
  size_t top_k = 0;        // draw from the k likeliest; 0: all
  double top_p = 1;        // draw from the likeliest that together have this probability
  double repetition_penalty = 1;
  uint64_t seed = 1;               // the same seed draws the same text on every machine
  std::vector<int32_t> stop = {};  // ids that end the text; empty: the model's end of text
  // Called with each new piece of text as soon as it is whole UTF-8; return false to stop.
  std::function<bool(std::string_view)> on_text = {};
};

enum class Ended {
  kNewTokens,    // max_new_tokens were made
  kEndOfText,    // the model (or a stop id) said so
  kByCaller,     // on_text said so
  kModelLength,  // the model can read no more
};

struct Generated {
  std::vector<int32_t> ids;  // the new ones, an end of text included
  std::string text;          // of them
  Ended ended = Ended::kNewTokens;
  size_t prompt_tokens = 0;  // that were read
  size_t prompt_cut = 0;     // tokens at the start of a long prompt that were not
};

class BERTIE_API Pipeline {
 public:
  // A directory in the Hugging Face layout. threads 0: one for every core.
  static Pipeline load(const std::filesystem::path& directory, int threads = 0);
  Pipeline(const Pipeline& other);
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline other) noexcept;
  ~Pipeline();

  // The likeliest tokens for every [MASK] (or <mask>) of the text, best first: one list for each mask.
  // `targets`, if given, are the only candidates; of one that is several tokens the first counts. Error if
  // there is no mask; of many texts, one without a mask has an empty list.
  std::vector<std::vector<Fill>> fill_mask(std::string_view text, size_t top = 5,
                                           std::span<const std::string> targets = {});
  std::vector<std::vector<std::vector<Fill>>> fill_mask(std::span<const std::string_view> texts,
                                                        size_t top = 5,
                                                        std::span<const std::string> targets = {});

  // How likely `b` follows `a` (BERT) or stands in the right order after it (ALBERT).
  float next_sentence(std::string_view a, std::string_view b);
  std::vector<float> next_sentence(std::span<const TextPair> pairs);

  // All labels of a text or of a pair, best first.
  std::vector<Scored> classify(std::string_view text, Apply apply = Apply::kByProblem);
  std::vector<Scored> classify(std::string_view a, std::string_view b, Apply apply = Apply::kByProblem);
  std::vector<std::vector<Scored>> classify(std::span<const std::string_view> texts,
                                            Apply apply = Apply::kByProblem);
  std::vector<std::vector<Scored>> classify(std::span<const TextPair> pairs, Apply apply = Apply::kByProblem);

  // Entities, in the order of the text. A text longer than the model takes goes in windows; nothing is lost.
  std::vector<Entity> tag(std::string_view text, const TagOptions& options = {});
  std::vector<std::vector<Entity>> tag(std::span<const std::string_view> texts,
                                       const TagOptions& options = {});

  // The best answers, best first. A long context goes in windows.
  std::vector<Answer> answer(std::string_view question, std::string_view context,
                             const AnswerOptions& options = {});
  std::vector<std::vector<Answer>> answer(std::span<const Question> questions,
                                          const AnswerOptions& options = {});

  // Continues a text (GPT-2). Of a prompt longer than the model takes, the end is read. Many prompts go on
  // together, some at a time, each as it would alone; on_text is for one.
  Generated generate(std::string_view prompt, const GenerateOptions& options = {});
  std::vector<Generated> generate(std::span<const std::string_view> prompts,
                                  const GenerateOptions& options = {});

  // Called while many inputs are worked on, with how many are done. Throwing from it stops the work.
  void on_progress(std::function<void(size_t done, size_t of)> callback);
  // How many inputs of the last call were longer than max_length() and were cut: texts and pairs that are
  // classified or filled, and questions longer than max_question.
  size_t truncated() const;

  // Error if the checkpoint has no such head; it says what it can do instead.
  void need(Head head) const;

  const Tokenizer& tokenizer() const;
  const Model& model() const;
  size_t max_length() const;           // tokens, special ones included
  void set_max_length(size_t tokens);  // Error if the model has fewer positions
  int threads() const;

 private:
  struct Shared;
  struct State;
  explicit Pipeline(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace bertie
