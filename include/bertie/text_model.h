#pragma once
// Texts in; vectors, attention, labels, entities, answers and texts out: a model, its tokenizer and its
// pooling, loaded together.
//
//   auto model = bertie::load("sentence-transformers/all-MiniLM-L6-v2");
//   std::vector<float> v = model.embed("hello world").values;
//
//   auto classifier = bertie::load("distilbert-base-uncased-finetuned-sst-2-english");
//   for (const bertie::Scored& s : classifier.classify("A fine film.").labels) …   // {"POSITIVE", 0.9998}, …
//
// A TextModel is constant. Copies are cheap and share everything; any number of threads may call any of its
// functions at the same time. A call takes a worker (its memory and its team of threads) that is free, or
// makes another one, and gives it back at the end.
//
// What a checkpoint can do depends on its head; asking for something else is an Error that says what it can.
// Results are those of transformers' pipelines and of sentence-transformers on the same model. A model whose
// numbers come out as NaN or infinity is an Error too.
//
// Every task takes one input, or many: many are taken some 65,000 tokens at a time, sorted by length, and go
// through the model in batches; results come back in the order of the inputs, and are those of each alone.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "bertie/export.h"
#include "bertie/files.h"
#include "bertie/model.h"
#include "bertie/results.h"
#include "bertie/tokenizer.h"
#include "bertie/view.h"

namespace bertie {

// How tokens become one vector, as sentence-transformers' modules.json says.
struct Pooling {
  // Several are concatenated, in sentence-transformers' order: cls, max, mean, mean_sqrt_length.
  bool cls = false, mean = true, max = false, mean_sqrt_length = false;
  bool normalize = false;  // to length 1, at the end
};

struct LoadOptions {
  int threads = 0;        // that a call works with; 0: one for every core
  size_t max_length = 0;  // tokens of a text, special ones included; 0: what the model's files say
  bool strict = false;    // what `warning` would be told is an Error
  // Told what is odd but does no harm: tensors that the model has no use for.
  std::function<void(std::string_view)> warning = {};
  // kBFloat16 takes half the memory for layers, and results differ a little; docs/models.md has by how much.
  WeightFormat format = WeightFormat::kFloat32;
};

class TextModelAccess;

class BERTIE_API TextModel {
 public:
  // The text's vector of dimension() numbers. A text of more than max_length() tokens is cut there, as
  // sentence-transformers does.
  Embedding embed(std::string_view text) const;
  std::vector<Embedding> embed(const Texts& texts, const EmbedOptions& options = {}) const;
  std::vector<Embedding> embed(TextList texts, const EmbedOptions& options = {}) const {
    return embed(Texts(texts), options);
  }
  // A row for each text into `out` (texts.size(), dimension()), without a copy.
  std::vector<EmbeddedRow> embed(const Texts& texts, Matrix<float> out,
                                 const EmbedOptions& options = {}) const;
  // The same of texts that are tokens already, special ones included. Error where one has none, more than
  // max_length(), or ids that the vocabulary does not have.
  void embed_tokens(std::span<const std::span<const int32_t>> ids, Matrix<float> out,
                    const EmbedOptions& options = {}) const;

  // Every token's vector, cut as embed cuts.
  std::vector<TokenVectors> token_vectors(const Texts& texts, const EmbedOptions& options = {}) const;

  // Attention weights for a text, or for a pair. Error if it is too long for the model.
  Attention attend(std::string_view text, const AttendOptions& options = {}) const;
  Attention attend(std::string_view a, std::string_view b, const AttendOptions& options = {}) const;

  // The likeliest tokens for every [MASK] (or <mask>) of the text. Error if there is no mask; of many texts,
  // one without a mask has an empty result.
  MaskFilling fill_mask(std::string_view text, const FillMaskOptions& options = {}) const;
  std::vector<MaskFilling> fill_mask(const Texts& texts, const FillMaskOptions& options = {}) const;
  std::vector<MaskFilling> fill_mask(TextList texts, const FillMaskOptions& options = {}) const {
    return fill_mask(Texts(texts), options);
  }

  // How likely a text is, token by token.
  TextScore score(std::string_view text, const TextScoreOptions& options = {}) const;
  std::vector<TextScore> score(const Texts& texts, const TextScoreOptions& options = {}) const;
  std::vector<TextScore> score(TextList texts, const TextScoreOptions& options = {}) const {
    return score(Texts(texts), options);
  }

  NextSentence next_sentence(std::string_view a, std::string_view b) const;
  std::vector<NextSentence> next_sentence(std::span<const TextPair> pairs,
                                          const NextSentenceOptions& options = {}) const;

  // All labels of a text or of a pair.
  Classification classify(std::string_view text, const ClassifyOptions& options = {}) const;
  Classification classify(std::string_view a, std::string_view b, const ClassifyOptions& options = {}) const;
  std::vector<Classification> classify(const Texts& texts, const ClassifyOptions& options = {}) const;
  std::vector<Classification> classify(TextList texts, const ClassifyOptions& options = {}) const {
    return classify(Texts(texts), options);
  }
  std::vector<Classification> classify(std::span<const TextPair> pairs,
                                       const ClassifyOptions& options = {}) const;

  // Entities. A text longer than max_length goes in windows; nothing is lost.
  Tagging tag(std::string_view text, const TagOptions& options = {}) const;
  std::vector<Tagging> tag(const Texts& texts, const TagOptions& options = {}) const;
  std::vector<Tagging> tag(TextList texts, const TagOptions& options = {}) const {
    return tag(Texts(texts), options);
  }

  // Answers in a context, which goes in windows if it is long.
  Answering answer(std::string_view question, std::string_view context,
                   const AnswerOptions& options = {}) const;
  std::vector<Answering> answer(std::span<const Question> questions, const AnswerOptions& options = {}) const;

  // Continues a text (GPT-2). Of a prompt longer than the model takes, the end is read. Many prompts go on
  // together, some at a time, each as it would alone.
  Generation generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  std::vector<Generation> generate(const Texts& prompts, const GenerateOptions& options = {}) const;
  std::vector<Generation> generate(TextList prompts, const GenerateOptions& options = {}) const {
    return generate(Texts(prompts), options);
  }

  // Another handle on the same weights. For many callers at once one thread a call is the fastest.
  TextModel with_threads(int threads) const;       // 0: one for every core
  TextModel with_max_length(size_t tokens) const;  // Error if the model takes fewer; 0: as its files say
  // Vectors pooled in another way than its files say. Error where dense modules follow, and need the old
  // size.
  TextModel with_pooling(const Pooling& pooling) const;
  // These heads of attention give nothing, as if their output were zero, besides those that were off already.
  // What they look at can still be seen. Error if there is no such head.
  TextModel without(std::span<const WhichHead> heads) const;
  TextModel without(std::initializer_list<WhichHead> heads) const {
    return without(std::span(heads.begin(), heads.size()));
  }
  const std::vector<WhichHead>& heads_off() const;  // ascending
  bool can(Head head) const { return model().has(head); }
  void require(Head head) const;  // Error if it cannot, which says what it can

  const Tokenizer& tokenizer() const;
  const Model& model() const;
  const Pooling& pooling() const;
  size_t dimension() const;  // of a text's vector
  // Tokens of a text, special ones included, that embed reads; and that tasks with a head read, for which
  // sentence-transformers' max_seq_length does not count.
  size_t max_length() const;
  size_t task_max_length() const;
  int threads() const;

 private:
  friend class TextModelAccess;  // the library's own: src/tasks/text_model_state.h
  struct State;
  explicit TextModel(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

// A model and its tokenizer from a folder in the layout of Hugging Face or sentence-transformers, from the
// hub's cache by name, or from memory (files.h). Throws Error.
BERTIE_API TextModel load(const ModelFiles& files, const LoadOptions& options = {});

}  // namespace bertie
