#pragma once
// The shape of a model, as config.json gives it: BERT, RoBERTa (XLM-RoBERTa and CamemBERT are the same
// network), DistilBERT, ALBERT or GPT-2. One network runs them all; src/model/family.h is the table of their
// differences.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bertie/attention.h"
#include "bertie/export.h"
#include "bertie/files.h"

namespace bertie {

// What a sequence-classification head's numbers mean; config.json's problem_type.
enum class Problem { kUnset, kSingleLabel, kMultiLabel, kRegression };

// A layer's attention: how to score, where to look and how to compute (bertie/attention.h). What is set here
// is BERT's. What a mechanism learns (spans, score matrices, Linformer's projections) is the model's: the
// views in `look` and `compute` stay empty. In config.json it is the object "attention"; docs/models.md has
// its keys.
struct AttentionConfig {
  Score::Kind score = Score::Kind::kScaledDot;
  size_t score_size = 64;            // of additive scores: numbers that tanh is taken of
  Look look = {};                    // full: a causal model's is causal
  std::vector<int32_t> global = {};  // of Look::window_and_global
  double span = 0.1;  // of Look::adaptive_span at the start of training, as a share of all positions
  Compute compute = {};
  size_t linformer_rows = 64;  // of Compute::linformer

  bool is_standard(bool causal) const {  // what transformers computes, in a causal model or in another
    return score == Score::Kind::kScaledDot && compute.kind == Compute::Kind::kSoftmax &&
           (look.kind == Look::Kind::kFull || (causal && look.kind == Look::Kind::kCausal));
  }
};

struct BERTIE_API Config {
  std::string model_type = "bert";  // or roberta, xlm-roberta, camembert, distilbert, albert, gpt2
  size_t layers = 12;               // num_hidden_layers
  size_t hidden = 768;              // hidden_size
  size_t heads = 12;                // num_attention_heads
  size_t intermediate = 3072;       // intermediate_size
  size_t vocabulary = 30522;        // vocab_size
  size_t positions = 512;           // max_position_embeddings
  size_t types = 2;                 // type_vocab_size; 0 where the family has none
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;  // standard deviation of fresh weights
  std::string activation = "gelu";  // hidden_act

  size_t embedding = 0;              // ALBERT's embedding_size; 0: as hidden
  size_t groups = 1;                 // ALBERT's num_hidden_groups: layers that have weights of their own
  size_t inner_layers = 1;           // ALBERT's inner_group_num: layers in a group
  int32_t pad_id = 0;                // pad_token_id, -1 where there is none; RoBERTa counts positions from it
  int32_t bos_id = -1, eos_id = -1;  // GPT-2's end of text
  bool scale_by_layer = false;       // GPT-2's scale_attn_by_inverse_layer_idx
  bool scale_scores = true;          // GPT-2's scale_attn_weights
  bool tied = true;                  // the language-model head uses the word embeddings
  std::vector<std::string> labels = {"LABEL_0", "LABEL_1"};  // id2label, in order
  // A tagger that learned labels of words' first pieces alone, as fine-tuning has it: what it says of others
  // means nothing. Bertie's own key, labels_first_pieces.
  bool labels_first_pieces = false;
  Problem problem = Problem::kUnset;
  std::string architecture = {};                  // architectures[0]; empty where the file does not say
  double dropout = 0.1, attention_dropout = 0.1;  // for training
  // For training; below 0: as dropout. ALBERT and DistilBERT have their own for classifiers, GPT-2 for
  // embeddings.
  double classifier_dropout = -1, embedding_dropout = -1;
  AttentionConfig attention = {};
  // For each layer the heads that were removed, from 0, ascending; empty: none at all. Heads keep their
  // numbers: of 12 heads without head 3, the last is still head 11.
  std::vector<std::vector<size_t>> pruned_heads = {};

  static Config base() { return {}; }
  static Config large() { return {.layers = 24, .hidden = 1024, .heads = 16, .intermediate = 4096}; }
  // A published model's shape: bert-base, bert-large, minilm, roberta-base, xlm-roberta-base,
  // distilbert-base, albert-base, gpt2.
  static Config named(const std::string& name);

  // Reads config.json. Throws Error naming the key that is wrong.
  static Config load(const ModelFiles& files);
  // What config.json would say, for transformers to read.
  std::string to_json() const;
  // Throws Error if the numbers do not make a model.
  void check(const std::string& name) const;

  size_t head_size() const { return hidden / heads; }
  // The heads that a layer has, by their numbers; and all its heads' numbers together.
  std::vector<size_t> heads_of(size_t layer) const;
  bool has_head(size_t layer, size_t head) const;  // and it was not pruned
  size_t attention_size(size_t layer) const {
    return (heads - (pruned_heads.empty() ? 0 : pruned_heads[layer].size())) * head_size();
  }
  size_t embedding_size() const { return embedding ? embedding : hidden; }
  // Layers that a token goes through: ALBERT's groups may hold several.
  size_t depth() const { return layers * inner_layers; }
  // The most tokens that a sequence may have: RoBERTa's first positions are not for tokens.
  size_t max_tokens() const;
  // Each token sees those before it only, and the model continues texts: GPT-2.
  bool causal() const;
  // Numbers in the model: embeddings, layers and (if there) pooler. Base 109,482,240, Large 335,141,888.
  size_t parameters(bool pooler = true) const;
};

}  // namespace bertie
