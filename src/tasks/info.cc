// What a model is, by its files.
#include "bertie/info.h"

#include <algorithm>

#include "io/model_file_names.h"
#include "model/access.h"
#include "tasks/modules.h"
#include "text/loaders/loaders.h"

namespace bertie {
namespace {

bool is_read(const std::string& name) {
  if (name.find('/') != name.npos) return false;  // of the folder itself
  return name.ends_with(".safetensors") || name.ends_with(".json") || name.ends_with(".model") ||
         io::is_small_model_file(name);
}

std::vector<ModelInfo::File> files_of(const ModelFiles& files) {
  std::vector<ModelInfo::File> out;
  for (const std::string& name : files.list())
    if (is_read(name)) out.push_back({name, files.read(name).bytes.size()});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::map<std::string, uint64_t> stored_types(const io::SafeTensors& tensors) {
  std::map<std::string, uint64_t> numbers;
  for (const io::TensorInfo& tensor : tensors.tensors())
    numbers[std::string(io::name_of(tensor.dtype))] += tensor.elements();
  return numbers;
}

}  // namespace

std::string_view head_name(Head head) { return name_of(head).name; }

ModelInfo describe(const ModelFiles& files) {
  const ModelFiles inside = transformer_files(files);
  ModelInfo info;
  info.files = files_of(inside);
  const WeightsOptions options{.warning = [&](std::string_view what) { info.warnings.emplace_back(what); }};
  if (TransformerConfig::describes(inside)) {
    const Transformer model = Transformer::load(inside, options);
    const TransformerWeights& w = weights_of(model);
    info.transformer = model.config();
    info.parameters = model.parameters();
    info.stored = stored_types(w.files);
    info.weights_bytes = w.memory.size() + w.position_memory.size() + w.word.data.size();
    return info;
  }
  const Model model = Model::load(inside, options);
  const Weights& w = weights_of(model);
  const Config& config = model.config();
  info.config = config;
  info.parameters = model.parameters();
  info.stored = stored_types(w.files);
  info.weights_bytes = w.memory.size() + w.word.data.size();
  info.has_pooler = model.has_pooler();
  for (Head head : kHeads)
    if (model.has(head)) info.heads.push_back(head);
  size_t tokenizer_length = kNoLimit;
  if (!text::find_tokenizer_file(inside).empty()) {
    const Tokenizer tokenizer = Tokenizer::load(inside);
    check_vocabulary(tokenizer, config, files.name());
    tokenizer_length = tokenizer.model_max_length();
    info.tokenizer = {std::string(tokenizer.kind()), !tokenizer.lowercase(), tokenizer.vocab_size()};
  }
  const Modules modules = load_modules(files, config.hidden);
  info.pooling = modules.pooling;
  info.has_dense = !modules.dense.empty();
  info.dimension = modules.output_size(config.hidden);
  info.max_length = max_length(modules, config.max_tokens(), tokenizer_length);
  // Hidden states, their copies and the widest product; as run.cc lays them out.
  info.bytes_per_token =
      (3 * config.hidden + std::max(3 * config.hidden, config.intermediate)) * sizeof(float);
  return info;
}

}  // namespace bertie
