#include "model/rename.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/model_contents.h"
#include "io/tensorflow_checkpoint.h"
#include "model/low_rank.h"

namespace bertie {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

std::string join(std::string_view a, std::string_view b, std::string_view c = {}) {
  std::string text(a);
  text += b;
  return text += c;
}

bool replace_end(std::string& name, std::string_view from, std::string_view to) {
  if (!name.ends_with(from)) return false;
  name = join(std::string_view(name).substr(0, name.size() - from.size()), to);
  return true;
}

bool replace_start(std::string& name, std::string_view from, std::string_view to) {
  if (!name.starts_with(from)) return false;
  name = join(to, std::string_view(name).substr(from.size()));
  return true;
}

// The first place where it is.
bool replace(std::string& name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at == name.npos) return false;
  const std::string_view text = name;
  name = join(text.substr(0, at), to, text.substr(at + from.size()));
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "layer_12/" → "layer/12/": a number becomes a part of its own.
void part_number(std::string& name, std::string_view before, std::string_view becomes) {
  for (size_t at = 0; (at = name.find(before, at)) != name.npos; ++at) {
    const size_t digit = at + before.size();
    const bool starts_part = at == 0 || name[at - 1] == '/';
    if (!starts_part || digit >= name.size() || !is_digit(name[digit])) continue;
    const std::string_view text = name;
    name = join(text.substr(0, at), becomes, text.substr(digit));
    return;
  }
}

// State that TensorFlow's optimizers and loops keep beside the weights.
bool is_training_state(std::string_view name) {
  if (name == "global_step") return true;
  for (std::string_view end :
       {"/adam_m", "/adam_v", "/AdamWeightDecayOptimizer", "/AdamWeightDecayOptimizer_1", "/lamb_m",
        "/lamb_v", "/LAMBOptimizer", "/LAMBOptimizer_1"})
    if (name.ends_with(end)) return true;
  return false;
}

// The last part of a TensorFlow name, which is the same for all of Google's encoders.
void finish_tensorflow(Renamed& r) {
  if (replace_end(r.name, "/kernel", "/weight"))
    r.transposed = true;
  else if (!replace_end(r.name, "/gamma", "/weight") && !replace_end(r.name, "/beta", "/bias") &&
           !replace_end(r.name, "/output_bias", "/bias") &&
           !replace_end(r.name, "/output_weights", "/weight") && r.name.ends_with("_embeddings"))
    r.name += "/weight";
  std::replace(r.name.begin(), r.name.end(), '/', '.');
}

// Heads that have the same names in BERT's and ALBERT's scripts; false for another tensor.
bool rename_head(std::string& name) {
  if (name == "output_weights" || name == "output_bias") return replace_start(name, "", "classifier/");
  return replace_start(name, "cls/squad/", "qa_outputs/");
}

Renamed from_google_bert(std::string name) {
  if (!rename_head(name)) part_number(name, "layer_", "layer/");
  Renamed r{.name = std::move(name)};
  finish_tensorflow(r);
  return r;
}

// ALBERT's graph is nested otherwise than its modules in transformers.
Renamed from_google_albert(std::string name) {
  if (!rename_head(name)) {
    constexpr std::array<Pair, 9> kParts{{{"/encoder/transformer/", "/encoder/"},
                                          {"/attention_1/self/", "/attention/"},
                                          {"/attention_1/output/dense/", "/attention/dense/"},
                                          {"/ffn_1/intermediate/output/dense/", "/ffn_output/"},
                                          {"/ffn_1/intermediate/dense/", "/ffn/"},
                                          {"/LayerNorm_1/", "/full_layer_layer_norm/"},
                                          {"/pooler/dense/", "/pooler/"},
                                          {"/predictions/transform/", "/predictions/"},
                                          {"/seq_relationship/", "/sop_classifier/classifier/"}}};
    for (const auto& [from, to] : kParts) replace(name, from, to);
    if (!replace_start(name, "bert/", "albert/")) replace_start(name, "cls/", "");
    part_number(name, "inner_group_", "albert_layers/");
    part_number(name, "group_", "albert_layer_groups/");
    // The first LayerNorm of a layer belongs to its attention.
    if (name.find("/albert_layers/") != name.npos) replace(name, "/LayerNorm/", "/attention/LayerNorm/");
  }
  Renamed r{.name = std::move(name)};
  finish_tensorflow(r);
  return r;
}

// OpenAI's GPT-2. Its convolutions are [1, inputs, outputs]; transformers keeps (inputs, outputs).
Renamed from_openai_gpt2(std::string name) {
  replace_start(name, "model/", "");
  part_number(name, "h", "h/");
  if (name == "wte" || name == "wpe") name += "/weight";
  if (!replace_end(name, "/w", "/weight") && !replace_end(name, "/g", "/weight"))
    replace_end(name, "/b", "/bias");
  std::replace(name.begin(), name.end(), '/', '.');
  return {.name = "transformer." + name, .squeezed = true};
}

// Checkpoints of PyTorch before its names settled.
Renamed from_pytorch(std::string name, std::string_view model_type) {
  replace_start(name, "module.", "");  // DataParallel
  if (!replace_end(name, "LayerNorm.gamma", "LayerNorm.weight"))
    replace_end(name, "LayerNorm.beta", "LayerNorm.bias");
  if (model_type == "gpt2")
    for (std::string_view base : {"wte.", "wpe.", "h.", "ln_f."})
      if (name.starts_with(base)) {
        replace_start(name, "", "transformer.");
        break;
      }
  return {.name = std::move(name)};
}

}  // namespace

bool is_buffer(std::string_view name) {
  for (std::string_view end :
       {"embeddings.position_ids", "embeddings.token_type_ids", ".attn.bias", ".attn.masked_bias"})
    if (name.ends_with(end)) return true;
  return false;
}

Renamed rename_tensor(std::string_view name, std::string_view model_type) {
  if (name.ends_with(":0")) name.remove_suffix(2);  // TensorFlow's first output of a variable
  if (is_training_state(name)) return {.name = {}, .dropped = "the optimizer's"};
  const bool tensorflow = name.find('/') != name.npos || name == "output_weights" || name == "output_bias";
  std::string text(name);
  if (tensorflow) replace_start(text, "module/", "");
  Renamed r = !tensorflow              ? from_pytorch(std::move(text), model_type)
              : model_type == "gpt2"   ? from_openai_gpt2(std::move(text))
              : model_type == "albert" ? from_google_albert(std::move(text))
                                       : from_google_bert(std::move(text));
  if (is_buffer(r.name)) return {.name = {}, .dropped = "a buffer that the model makes itself"};
  return r;
}

io::SafeTensors open_weights(const ModelFiles& files, std::string_view model_type) {
  io::SafeTensors stored = io::SafeTensors::open(files);
  if (!io::is_tensorflow_index(files.only().empty() ? io::weights_file(files) : files.only()))
    return apply_low_rank(std::move(stored), files.name());
  std::vector<io::TensorInfo> tensors;
  std::vector<std::vector<std::byte>> copies;
  for (io::TensorInfo t : stored.tensors()) {
    const Renamed r = rename_tensor(t.name, model_type);
    if (r.name.empty()) continue;
    if (r.squeezed && t.shape.size() > 2) std::erase(t.shape, size_t{1});
    if (r.transposed && t.shape.size() == 2) {
      copies.push_back(io::transposed(t));
      t.data = copies.back();
      std::swap(t.shape[0], t.shape[1]);
    }
    t.name = r.name;
    tensors.push_back(std::move(t));
  }
  return std::move(stored).with(std::move(tensors), std::move(copies));
}

}  // namespace bertie
