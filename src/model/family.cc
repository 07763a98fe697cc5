#include "model/family.h"

#include <fmt/format.h>

#include <vector>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "io/json.h"

namespace bertie {
namespace {

Family roberta(std::string_view model_type, std::string_view class_name) {
  Family f{.model_type = model_type, .class_name = class_name, .prefix = "roberta."};
  if (model_type == "roberta") f.standard.vocabulary = 50265;
  f.standard.pad_id = 1, f.standard.bos_id = 0, f.standard.eos_id = 2;
  f.language_model = {.dense = "lm_head.dense",
                      .norm = "lm_head.layer_norm",
                      .bias = "lm_head.bias",
                      .decoder = "lm_head.decoder",
                      .activation = "gelu"};
  f.classifier = {.dense = "classifier.dense", .out = "classifier.out_proj", .activation = "tanh"};
  f.drops_classifier_input = true;
  f.positions_after_pad = true;
  return f;
}

std::vector<Family> make_families() {
  Family bert{.model_type = "bert", .class_name = "Bert", .prefix = "bert."};
  bert.language_model = {.dense = "cls.predictions.transform.dense",
                         .norm = "cls.predictions.transform.LayerNorm",
                         .bias = "cls.predictions.bias",
                         .decoder = "cls.predictions.decoder"};
  bert.next_sentence = "cls.seq_relationship";
  bert.classifier.out = "classifier";

  Family distilbert{.model_type = "distilbert", .class_name = "DistilBert", .prefix = "distilbert."};
  distilbert.keys = {.layers = "n_layers",
                     .hidden = "dim",
                     .heads = "n_heads",
                     .intermediate = "hidden_dim",
                     .activation = "activation",
                     .eps = "",
                     .dropout = "dropout",
                     .attention_dropout = "attention_dropout",
                     .classifier_dropout = "seq_classif_dropout"};
  distilbert.standard.classifier_dropout = 0.2;
  distilbert.standard.layers = 6, distilbert.standard.types = 0;
  distilbert.embeddings.type = "";
  distilbert.layer = "transformer.layer.";
  distilbert.layers = {.query = "attention.q_lin",
                       .key = "attention.k_lin",
                       .value = "attention.v_lin",
                       .attention_out = "attention.out_lin",
                       .attention_norm = "sa_layer_norm",
                       .up = "ffn.lin1",
                       .down = "ffn.lin2",
                       .output_norm = "output_layer_norm"};
  distilbert.drops_attention = false;
  distilbert.pooler = "";
  distilbert.language_model = {.dense = "vocab_transform",
                               .norm = "vocab_layer_norm",
                               .bias = "vocab_projector.bias",
                               .decoder = "vocab_projector"};
  distilbert.classifier = {.dense = "pre_classifier", .out = "classifier", .activation = "relu"};

  Family albert{.model_type = "albert", .class_name = "Albert", .prefix = "albert."};
  albert.standard = {.hidden = 4096,
                     .heads = 64,
                     .intermediate = 16384,
                     .vocabulary = 30000,
                     .activation = "gelu_new",
                     .embedding = 128,
                     .bos_id = 2,
                     .eos_id = 3,
                     .dropout = 0,
                     .attention_dropout = 0,
                     .classifier_dropout = 0.1};
  albert.keys.classifier_dropout = "classifier_dropout_prob";
  albert.drops_next_sentence = true;
  albert.embeddings.projection = "encoder.embedding_hidden_mapping_in";
  albert.layer = "encoder.albert_layer_groups.", albert.layer_of_group = "albert_layers.";
  albert.layers = {.query = "attention.query",
                   .key = "attention.key",
                   .value = "attention.value",
                   .attention_out = "attention.dense",
                   .attention_norm = "attention.LayerNorm",
                   .up = "ffn",
                   .down = "ffn_output",
                   .output_norm = "full_layer_layer_norm"};
  albert.drops_feed_forward = false;
  albert.pooler = "pooler";
  albert.language_model = {.dense = "predictions.dense",
                           .norm = "predictions.LayerNorm",
                           .bias = "predictions.bias",
                           .decoder = "predictions.decoder"};
  albert.next_sentence = "sop_classifier.classifier";
  albert.classifier.out = "classifier";

  Family gpt2{.model_type = "gpt2", .class_name = "GPT2", .prefix = "transformer."};
  gpt2.keys = {.layers = "n_layer",
               .hidden = "n_embd",
               .heads = "n_head",
               .intermediate = "n_inner",
               .positions = "n_positions",
               .activation = "activation_function",
               .eps = "layer_norm_epsilon",
               .dropout = "resid_pdrop",
               .attention_dropout = "attn_pdrop",
               .embedding_dropout = "embd_pdrop"};
  gpt2.standard = {.vocabulary = 50257,
                   .positions = 1024,
                   .types = 0,
                   .layer_norm_eps = 1e-5,
                   .activation = "gelu_new",
                   .pad_id = -1,
                   .bos_id = 50256,
                   .eos_id = 50256,
                   .embedding_dropout = 0.1};
  gpt2.drops_classifier = false;
  gpt2.embeddings = {.word = "wte", .position = "wpe", .type = "", .norm = ""};
  gpt2.layer = "h.";
  gpt2.layers = {.query = "",
                 .key = "",
                 .value = "",
                 .qkv = "attn.c_attn",
                 .attention_out = "attn.c_proj",
                 .attention_norm = "ln_2",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .output_norm = ""};
  gpt2.pooler = "";
  gpt2.language_model.decoder = "lm_head";
  gpt2.classifier = {.dense = "", .out = "score", .activation = ""};
  gpt2.causal = gpt2.norm_first = gpt2.weights_transposed = true;
  gpt2.first_norm = "ln_1", gpt2.last_norm = "ln_f";

  std::vector<Family> all{bert,
                          roberta("roberta", "Roberta"),
                          roberta("xlm-roberta", "XLMRoberta"),
                          roberta("camembert", "Camembert"),
                          distilbert,
                          albert,
                          gpt2};
  for (Family& f : all) f.standard.model_type = f.model_type;
  return all;
}

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> all = make_families();
  return all;
}

bool has_head(const Family& f, Head head) {
  switch (head) {
    case Head::kMaskedLm:
      return !f.causal;
    case Head::kCausalLm:
      return f.causal;
    case Head::kNextSentence:
      return !f.next_sentence.empty();
    case Head::kClassify:
      return !f.classifier.out.empty();
    case Head::kTag:
      return !f.tagger.empty();
    case Head::kAnswer:
      return !f.answerer.empty();
  }
  return false;
}

const Family& family_of(const std::string& model_type, const std::string& file) {
  std::vector<std::string_view> known;
  for (const Family& f : families()) {
    if (f.model_type == model_type) return f;
    known.push_back(f.model_type);
  }
  if (model_type == "marian")
    throw Error(
        fmt::format("{}: this is an encoder-decoder (model_type \"marian\"), which reads one text and "
                    "writes another; a model with one side is needed here",
                    file),
        "bertie::Transformer runs it (docs/transformer.md)");
  const std::string_view meant = nearest(model_type, known);
  throw Error(fmt::format("{}: model_type {} is not known", file, io::quote(model_type)),
              meant.empty()
                  ? fmt::format("known are {}", fmt::join(known, ", "))
                  : fmt::format("did you mean \"{}\"? Known are {}", meant, fmt::join(known, ", ")));
}

}  // namespace bertie
