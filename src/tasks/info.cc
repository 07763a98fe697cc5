// What a model is, by its files.
#include "bertie/info.h"

#include <algorithm>

#include "io/model_contents.h"
#include "model/access.h"
#include "tasks/modules.h"
#include "text/loaders/loaders.h"

namespace bertie {
namespace {

std::vector<ModelInfo::File> files_of(const ModelFiles& files) {
  std::vector<ModelInfo::File> out;
  for (const std::string& name : io::files_read(files)) out.push_back({name, files.read(name).bytes.size()});
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

std::string pooling_name(const Pooling& pooling) {
  std::string name;
  for (const auto& [on, part] : {std::pair(pooling.cls, "cls"),
                                 {pooling.mean, "mean"},
                                 {pooling.max, "max"},
                                 {pooling.mean_sqrt_length, "mean_sqrt_length"}})
    if (on) name.append(name.empty() ? "" : "+").append(part);
  return name;
}

bool ModelInfo::has_labels() const {
  return std::ranges::any_of(heads, [](Head h) { return h == Head::kClassify || h == Head::kTag; });
}

ModelInfo describe(const ModelFiles& files, WeightFormat format) {
  const ModelFiles inside = transformer_files(files);
  ModelInfo info;
  const WeightsOptions options{.warning = [&](std::string_view what) { info.warnings.emplace_back(what); },
                               .format = format};
  if (TransformerConfig::describes(inside)) {
    const Transformer model = Transformer::load(inside, options);
    info.files = files_of(files);
    const TransformerWeights& w = weights_of(model);
    info.transformer = model.config();
    info.parameters = model.parameters();
    info.stored = stored_types(w.files);
    info.weights_bytes = w.memory.size() + w.position_memory.size() + w.word.data.size();
    return info;
  }
  const Model model = Model::load(inside, options);
  info.files = files_of(files);
  if (files.has("NOTICE.txt")) info.notice = files.read("NOTICE.txt").text();
  const Config& config = model.config();
  info.config = config;
  info.parameters = model.parameters();
  info.stored = stored_types(io::SafeTensors::open(inside));
  info.weights_bytes = model.bytes();
  info.has_pooler = model.has_pooler();
  for (Head head : kHeads)
    if (model.has(head)) info.heads.push_back(head);
  std::optional<Tokenizer> tokenizer;
  if (!text::find_tokenizer_file(inside).empty()) {
    tokenizer = Tokenizer::load(inside);
    check_vocabulary(*tokenizer, config, files.name());
    info.tokenizer = {std::string(tokenizer->kind()), !tokenizer->lowercase(), tokenizer->vocab_size()};
  }
  const auto [modules, error] = load_modules(files, model, tokenizer ? &*tokenizer : nullptr, false);
  if (error) info.no_vectors = error->what();
  info.pooling = modules.pooling;
  info.has_dense = !modules.dense.empty();
  info.dimension = modules.output_size(config.hidden);
  info.max_length =
      max_length(modules, config.max_tokens(), tokenizer ? tokenizer->model_max_length() : kNoLimit);
  info.bytes_per_token = Run::bytes_per_token(model);
  return info;
}

}  // namespace bertie
