#include "tasks/modules.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/safetensors.h"
#include "model/family.h"

namespace bertie {
namespace {

nlohmann::json read(const ModelFiles& files, std::string_view file) {
  return io::parse_json(files.read(file).text(), files.name_of(file));
}

Pooling read_pooling(const ModelFiles& files, size_t hidden) {
  const nlohmann::json json = read(files, io::kConfigFile);
  const std::string name = files.name_of(io::kConfigFile);
  Pooling p;
  // Newer versions write one name, older ones a flag for each.
  if (json.contains("pooling_mode")) {
    const std::string mode = io::get_string(json, "pooling_mode", name);
    p = {.cls = mode == "cls",
         .mean = mode == "mean",
         .max = mode == "max",
         .mean_sqrt_length = mode == "mean_sqrt_len_tokens"};
  } else {
    p = {.cls = io::get_bool(json, "pooling_mode_cls_token", name, false),
         .mean = io::get_bool(json, "pooling_mode_mean_tokens", name, true),
         .max = io::get_bool(json, "pooling_mode_max_tokens", name, false),
         .mean_sqrt_length = io::get_bool(json, "pooling_mode_mean_sqrt_len_tokens", name, false)};
    for (const char* key : {"pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"})
      if (io::get_bool(json, key, name, false))
        throw Error(fmt::format("{}: {} is not supported", name, key));
  }
  if (!p.cls && !p.mean && !p.max && !p.mean_sqrt_length)
    throw Error(fmt::format("{}: no pooling mode that is known here is on", name),
                "supported are cls, mean, max and mean_sqrt_len tokens");
  const size_t dimension = io::get_size(json, "word_embedding_dimension", name, hidden);
  if (dimension != hidden)
    throw Error(fmt::format("{}: word_embedding_dimension is {} but the model's hidden_size is {}", name,
                            dimension, hidden));
  return p;
}

kernels::Activation read_dense_activation(const nlohmann::json& json, const std::string& name) {
  const std::string f = io::get_string(json, "activation_function", name, "torch.nn.modules.activation.Tanh");
  const std::string last = f.substr(f.rfind('.') + 1);
  if (last == "Tanh") return kernels::Activation::kTanh;
  if (last == "Identity") return kernels::Activation::kNone;
  if (last == "ReLU") return kernels::Activation::kRelu;
  if (last == "GELU") return kernels::Activation::kGelu;
  if (last == "SiLU") return kernels::Activation::kSilu;
  throw Error(fmt::format("{}: activation_function {} is not supported", name, io::quote(f)));
}

DenseModule read_dense(const ModelFiles& files, size_t inputs) {
  const std::string name = files.name_of(io::kConfigFile);
  const nlohmann::json json = read(files, io::kConfigFile);
  DenseModule dense;
  dense.activation = read_dense_activation(json, name);
  dense.linear.inputs = io::get_size(json, "in_features", name);
  dense.linear.outputs = io::get_size(json, "out_features", name, {}, 65536);
  if (dense.linear.inputs != inputs || dense.linear.outputs == 0)
    throw Error(fmt::format("{}: in_features is {} and out_features {}; what goes in has {}", name,
                            dense.linear.inputs, dense.linear.outputs, inputs));
  const io::SafeTensors tensors = io::SafeTensors::open(files);
  const auto get = [&](const char* tensor, std::vector<size_t> shape) -> const io::TensorInfo& {
    const io::TensorInfo* found = tensors.find(tensor);
    if (!found || found->shape != shape)
      throw Error(fmt::format("{}: tensor {} of shape [{}] is missing", files.name(), tensor,
                              fmt::join(shape, ", ")));
    return *found;
  };
  const size_t outputs = dense.linear.outputs;
  const io::TensorInfo& weight_tensor =
      get("linear.weight", {outputs, inputs});  // before anything is allocated
  const size_t bias_floats = round_up(outputs, kernels::kPanel);
  dense.memory = Block((kernels::packed_floats(outputs, inputs) + bias_floats) * sizeof(float));
  dense.linear.bias = dense.memory.as<float>();
  dense.linear.packed = dense.memory.as<float>() + bias_floats;
  std::vector<float> weight(outputs * inputs);
  io::to_float(weight_tensor, 0, weight);
  kernels::pack_rows({weight.data(), outputs, inputs}, 0, dense.linear);
  if (io::get_bool(json, "bias", name, true))
    io::to_float(get("linear.bias", {outputs}), 0, {dense.linear.bias, outputs});
  return dense;
}

}  // namespace

size_t pooled_size(const Pooling& pooling, size_t hidden) {
  return hidden * (size_t{pooling.cls} + pooling.mean + pooling.max + pooling.mean_sqrt_length);
}

size_t Modules::output_size(size_t hidden) const {
  return dense.empty() ? pooled_size(pooling, hidden) : dense.back().linear.outputs;
}

ModelFiles transformer_files(const ModelFiles& files) { return files.below(io::transformer_folder(files)); }

size_t max_length(const Modules& modules, size_t positions, size_t tokenizer_max_length) {
  return std::min(positions, modules.max_length.value_or(tokenizer_max_length));
}

Modules load_modules(const ModelFiles& files, size_t hidden) {
  Modules m;
  if (!files.has(io::kModulesFile)) return m;
  const std::string name = files.name_of(io::kModulesFile);
  const nlohmann::json list = read(files, io::kModulesFile);
  constexpr size_t kMaxModules = 16;
  if (!list.is_array() || list.empty() || list.size() > kMaxModules)
    throw Error(fmt::format("{}: expected a list of 1 to {} modules", name, kMaxModules));
  io::module_folders(files);  // an Error where one of them is outside
  bool pooled = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string type = io::get_string(list[i], "type", name);
    const std::string kind = type.substr(type.rfind('.') + 1);
    const ModelFiles folder = files.below(io::get_string(list[i], "path", name, ""));
    if (m.pooling.normalize)
      throw Error(fmt::format("{}: module {} comes after Normalize", name, io::quote(type)));
    if (i == 0) {
      if (kind != "Transformer")
        throw Error(fmt::format("{}: the first module is {}, not a Transformer", name, io::quote(type)));
    } else if (kind == "Pooling" && !pooled) {
      m.pooling = read_pooling(folder, hidden);
      pooled = true;
    } else if (kind == "Normalize" && pooled) {
      m.pooling.normalize = true;
    } else if (kind == "Dense" && pooled) {
      m.dense.push_back(read_dense(folder, m.output_size(hidden)));
    } else {
      throw Error(fmt::format("{}: module {} (number {}) is not supported here", name, io::quote(type), i),
                  "supported are Transformer, Pooling, Dense and Normalize, in this order");
    }
  }
  if (!pooled) throw Error(fmt::format("{}: there is no Pooling module", name));
  if (const ModelFiles transformer = transformer_files(files); transformer.has(io::kSentenceConfigFile)) {
    const std::string file = transformer.name_of(io::kSentenceConfigFile);
    const nlohmann::json json = read(transformer, io::kSentenceConfigFile);
    if (json.contains("max_seq_length") && !json["max_seq_length"].is_null())
      m.max_length = io::get_size(json, "max_seq_length", file);
    m.lowercase = io::get_bool(json, "do_lower_case", file, false);
  }
  return m;
}

ModulesOrError load_modules(const ModelFiles& files, const Model& model, const Tokenizer* tokenizer,
                            bool strict) {
  ModulesOrError loaded;
  try {
    loaded.modules = load_modules(files, model.config().hidden);
    if (loaded.modules.lowercase && tokenizer && !tokenizer->lowercase())
      throw Error(fmt::format("{}: {} asks to lowercase texts for a cased tokenizer", files.name(),
                              io::kSentenceConfigFile),
                  "lowercase the texts yourself and set do_lower_case to false there");
  } catch (const Error& error) {
    const bool has_head =
        std::any_of(std::begin(kHeads), std::end(kHeads), [&](Head h) { return model.has(h); });
    if (!has_head || strict) throw;
    loaded.error = error;
  }
  return loaded;
}

void check_vocabulary(const Tokenizer& tokenizer, const Config& config, const std::string& name) {
  if (tokenizer.vocab_size() > config.vocabulary)
    throw Error(fmt::format("{}: the vocabulary has {} tokens but the model has embeddings for {}", name,
                            tokenizer.vocab_size(), config.vocabulary),
                "the tokenizer's files and the weights belong to different models");
}

}  // namespace bertie
