#pragma once
// What differs between the families that one network runs: the keys of config.json, the names of tensors,
// and a few switches. A family is a row of the table in family.cc.
#include <span>
#include <string_view>

#include "bertie/config.h"
#include "bertie/model.h"

namespace bertie {

// How a model of the family is described and what its tensors are called, in transformers' words. Names of
// layers come after the layer's own prefix; an empty name: there is no such tensor.
struct Family {
  std::string_view model_type;
  std::string_view class_name;  // "Bert": BertModel, BertForMaskedLM, …
  std::string_view prefix;      // before the names of a checkpoint with a head: "bert."

  struct Keys {  // of config.json
    std::string_view layers = "num_hidden_layers", hidden = "hidden_size", heads = "num_attention_heads",
                     intermediate = "intermediate_size", positions = "max_position_embeddings",
                     activation = "hidden_act", eps = "layer_norm_eps", dropout = "hidden_dropout_prob",
                     attention_dropout = "attention_probs_dropout_prob",
                     classifier_dropout = "classifier_dropout", embedding_dropout = "";
  } keys = {};
  Config standard = {};  // what transformers takes for a key that is not there

  struct Embeddings {
    std::string_view word = "embeddings.word_embeddings", position = "embeddings.position_embeddings",
                     type = "embeddings.token_type_embeddings", norm = "embeddings.LayerNorm",
                     projection = "";
  } embeddings = {};
  std::string_view layer = "encoder.layer.";  // then a number and a point; ALBERT: two of them
  std::string_view layer_of_group = "";
  struct Layer {
    std::string_view query = "attention.self.query", key = "attention.self.key",
                     value = "attention.self.value", qkv = "", attention_out = "attention.output.dense",
                     attention_norm = "attention.output.LayerNorm", up = "intermediate.dense",
                     down = "output.dense", output_norm = "output.LayerNorm";
  } layers = {};
  std::string_view pooler = "pooler.dense";

  struct LanguageModel {  // h → decoder(norm(f(dense(h)))); without dense and norm: decoder(h)
    std::string_view dense, norm, bias, decoder;
    std::string_view activation = "";  // "" : the model's
  } language_model = {};
  std::string_view next_sentence = "";
  struct Classifier {  // h → out(f(dense(h))) of the first (causal: last) token; without dense, of the pooled
                       // vector
    std::string_view dense, out;
    std::string_view activation;
  } classifier = {};
  std::string_view tagger = "classifier", answerer = "qa_outputs";

  bool positions_after_pad = false;  // RoBERTa: the first token's position is pad_id + 1
  bool causal = false;
  // x + f(norm(x)) in place of norm(x + f(x)). A layer's output norm is then the next layer's first norm, or
  // the norm at the end, and the embeddings' norm is the first layer's.
  bool norm_first = false;
  std::string_view first_norm = "", last_norm = "";
  bool weights_transposed = false;  // in layers, (inputs, outputs): GPT-2
  // In training, whether what a layer's half adds to the sum is dropped out.
  bool drops_attention = true, drops_feed_forward = true;
  // And what goes into a head: a classifier (RoBERTa's: also before its dense layer), next sentence.
  bool drops_classifier = true, drops_classifier_input = false, drops_next_sentence = false;
};

// What each head is called, by Head's numbers: in messages, in the names of transformers' classes, and by
// what it can do.
struct HeadName {
  std::string_view name, suffix, verb;
};
inline constexpr HeadName kHeadNames[] = {
    {"masked language model", "ForMaskedLM", "fill masks"},
    {"next sentence", "ForNextSentencePrediction", "judge whether a sentence follows another"},
    {"sequence classification", "ForSequenceClassification", "classify texts"},
    {"token classification", "ForTokenClassification", "tag tokens"},
    {"question answering", "ForQuestionAnswering", "answer questions"},
    {"language model", "LMHeadModel", "continue texts"},
};
inline constexpr Head kHeads[] = {Head::kMaskedLm, Head::kNextSentence, Head::kClassify,
                                  Head::kTag,      Head::kAnswer,       Head::kCausalLm};
constexpr const HeadName& name_of(Head head) { return kHeadNames[size_t(head)]; }

// Whether models of a family may have a head.
bool has_head(const Family& family, Head head);

// Error naming `file` for a type that is not known, with the nearest that is.
const Family& family_of(const std::string& model_type, const std::string& file);
std::span<const Family> families();

}  // namespace bertie
