#pragma once
// What a model's heads look at, over many sentences: which tokens, how far, at what they agree; which
// relations of a treebank they find, beside what guessing by place finds; and what the model loses without
// each of them.
//
//   auto report = bertie::analyze_heads(model, bertie::read_conllu("en_ewt-ud-dev.conllu"));
//   for (const bertie::RelationScore& r : report.relations) …     // "det", 8-11, 0.93; next word 0.52
//
// Where a head looks is not what it does: docs/heads.md says what this shows, and what it does not.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bertie/conllu.h"
#include "bertie/export.h"
#include "bertie/text_model.h"

namespace bertie {

// Where a head's attention goes, as a mean over all tokens that look, special ones too.
struct HeadShares {
  // Shares of it, from 0 to 1. [CLS] and [SEP] are a model's tokens of that kind; punctuation is what has
  // nothing else in it; previous, next and itself count any token.
  double cls = 0, sep = 0, punctuation = 0, previous = 0, next = 0, self = 0;
  double entropy = 0;   // of the weights of a token, in nats: 0 looks at one token, log n at all alike
  double distance = 0;  // in tokens
  bool pruned = false;  // it is not there, and all of these are 0
};

// The head that finds a relation best. A word's prediction is the other word that it looks at most: attention
// to a word is the sum over its tokens, from a word the mean over its tokens, special tokens and the word
// itself left out (Clark et al. 2019).
struct RelationScore {
  std::string relation;
  size_t count = 0;        // words that depend on another one so
  WhichHead head = {};     // from 0
  bool from_head = false;  // the word that is depended on looks at the other; else the other way round
  double accuracy = 0;     // of the head, from 0 to 1
  int offset = 0;          // the best fixed one: 1 says that a word depends on the next
  double offset_accuracy = 0;
  std::optional<double> random_accuracy = {};  // of the best head of a model with random weights
  std::vector<double> by_head = {};            // (layers, heads): every head's, the better of its two ways
};

// What happens to the masked language model's loss, in nats a token, without a head.
struct HeadAblation {
  size_t tokens = 0;            // that were masked
  double loss = 0;              // with all heads
  std::vector<double> without;  // (layers, heads): the loss without this one; NaN where it was pruned
};

struct HeadsReport {
  size_t layers = 0, heads = 0;
  size_t sentences = 0, tokens = 0;  // that were read
  size_t too_long = 0;               // sentences that were not: the model takes fewer tokens
  std::vector<HeadShares> shares;    // (layers, heads)
  // (layers·heads, layers·heads): the Jensen-Shannon divergence of two heads' weights, in nats, as a mean
  // over similarity_rows tokens; 0 where they look at the same, log 2 where at nothing in common, NaN
  // where one of them was pruned.
  std::vector<float> divergence;
  std::vector<RelationScore> relations;  // most frequent first; none of plain texts
  std::optional<HeadAblation> ablation = {};

  const HeadShares& at(WhichHead which) const { return shares[which.layer * heads + which.head]; }
};

struct HeadsOptions {
  size_t similarity_rows = 500;  // tokens for the divergence; 0: none of it
  bool random_model = true;      // a model with random weights is judged too, where there are relations
  size_t least_count = 20;       // relations that occur less often are left out
  size_t ablation_tokens = 0;    // of sentences that the loss is measured on; 0: not measured
  uint64_t seed = 1;             // of random weights, and of what is masked
  ProgressCallback progress = {};
};

// Error where the model has no attention weights (linear attention), and where the loss is wanted of a model
// without masks.
BERTIE_API HeadsReport analyze_heads(const TextModel& model, std::span<const ParsedSentence> sentences,
                                     const HeadsOptions& options = {});
BERTIE_API HeadsReport analyze_heads(const TextModel& model, const Texts& texts,
                                     const HeadsOptions& options = {});

// A pronoun, and two names of which one is who it means, as in GAP (Webster et al. 2018).
struct PronounExample {
  std::string text;
  Offset pronoun, a, b;
  bool is_a = false;
};
// The head whose attention tells them apart best: the name that the pronoun looks at more, the sum over the
// name's tokens, the mean over the pronoun's; or (from_name) the name that looks more at the pronoun.
struct CoreferenceScore {
  size_t count = 0, too_long = 0;
  WhichHead head = {};
  bool from_name = false;
  double accuracy = 0;
  double nearest_accuracy = 0;                 // of the name that is nearer
  std::optional<double> random_accuracy = {};  // of the best head of a model with random weights
};
BERTIE_API CoreferenceScore judge_coreference(const TextModel& model,
                                              std::span<const PronounExample> examples,
                                              const HeadsOptions& options = {});

// How much a model's loss hangs on each head, to first order: the mean over texts of |∂L/∂ξ|, ξ being what
// the head's output is multiplied by (Michel, Levy and Neubig 2019), a layer's scaled to a sum of squares of
// 1 as they do. L is the masked language model's loss, or where labels are given the classifier's.
struct ImportanceOptions {
  std::vector<std::string> labels = {};  // one for each text
  uint64_t seed = 1;                     // of what is masked
  bool scaled = true;                    // within each layer
  ProgressCallback progress = {};
};
BERTIE_API std::vector<double> head_importance(const TextModel& model, const Texts& texts,
                                               const ImportanceOptions& options = {});

}  // namespace bertie
