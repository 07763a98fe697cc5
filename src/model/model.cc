// Making a Model: from a checkpoint, or random; and saving it.
#include "bertie/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bertie/error.h"
#include "io/model_file_names.h"
#include "model/prune.h"
#include "model/quantize.h"
#include "model/rename.h"
#include "model/weights.h"

namespace bertie {
namespace {

// Choosing among several texts is no head of ours; its tensors have a classifier's names.
bool chooses(const Config& config) { return config.architecture.ends_with("ForMultipleChoice"); }

// The heads that a checkpoint has, by its tensors. `classifier` alone may be for texts or for tokens: the
// architecture says which, and where it does not, a pooler does, which only texts need.
std::vector<Head> heads_of(const Checkpoint& checkpoint, const Weights& w) {
  const Family& f = *w.family;
  const auto has = [&](std::string_view name) {
    return !name.empty() && checkpoint.find(std::string(name) + ".weight");
  };
  std::vector<Head> heads;
  if (f.causal ? w.config.tied || has(f.language_model.decoder) : has(f.language_model.dense))
    heads.push_back(f.causal ? Head::kCausalLm : Head::kMaskedLm);
  if (has(f.next_sentence)) heads.push_back(Head::kNextSentence);
  if (chooses(w.config)) return heads;
  const bool same_name = f.classifier.out == f.tagger;
  const bool for_tokens = !f.classifier.dense.empty() ? !has(f.classifier.dense)
                          : w.config.architecture.empty()
                              ? !w.has_pooler
                              : w.config.architecture.ends_with("ForTokenClassification");
  if (has(f.classifier.out) && !(same_name && for_tokens)) heads.push_back(Head::kClassify);
  if (has(f.tagger) && !(same_name && !for_tokens)) heads.push_back(Head::kTag);
  if (has(f.answerer)) heads.push_back(Head::kAnswer);
  return heads;
}

// Tensors that a file may hold although nothing is computed with them: copies of tied ones, the bias of a
// head whose decoder, not being tied, has its own, and heads for choosing among several texts.
void know_unused(Checkpoint& checkpoint, const Weights& w) {
  const Family& f = *w.family;
  const std::string decoder(f.language_model.decoder);
  for (const std::string& name : {decoder + ".weight", decoder + ".bias", std::string(f.language_model.bias)})
    checkpoint.know(name);
  std::vector<std::string_view> choosing{
      "multiple_choice_head.summary"};  // GPT-2's, beside its language model
  if (chooses(w.config)) choosing.insert(choosing.end(), {f.classifier.dense, f.tagger});
  for (std::string_view name : choosing)
    for (const char* part : {".weight", ".bias"}) checkpoint.know(std::string(name) + part);
}

// Where nobody says what a model reads: ids from all over its vocabulary.
struct SomeTokens {
  explicit SomeTokens(const Config& config) {
    constexpr size_t kSequences = 4;
    const size_t length = std::min<size_t>(config.max_tokens(), 64);
    for (size_t i = 0; i < kSequences * length; ++i)
      ids.push_back(int32_t((i * 7919 + 101) % config.vocabulary));
    for (size_t s = 0; s <= kSequences; ++s) offsets.push_back(int32_t(s * length));
  }
  Batch batch() const { return {.ids = ids, .offsets = offsets}; }

  std::vector<int32_t> ids, offsets;
};

// Weights with their table, and where the files have each tensor. What can be wrong with them has been said.
struct Opened {
  std::shared_ptr<Weights> weights;
  Checkpoint checkpoint;
};

Opened open_checkpoint(const ModelFiles& files, const WeightsOptions& options) {
  if (!files.exists())
    throw Error(fmt::format("no model at {}", files.name()),
                "a folder with config.json, model.safetensors and vocab.txt or tokenizer.json");
  auto w = std::make_shared<Weights>(Config::load(files), files.name_of(io::kConfigFile));
  w->files = open_weights(files, w->config.model_type);
  const std::string anchor = std::string(w->family->embeddings.word) + ".weight";
  const std::string_view prefix = w->family->prefix;
  const io::TensorInfo* const word =
      Checkpoint(w->files, files.name(), prefix, anchor).find(std::string(prefix) + anchor);
  const bool integers = word && word->dtype == io::DType::kI8;
  w->format = integers                                ? WeightFormat::kInt8
              : options.format == WeightFormat::kInt8 ? WeightFormat::kFloat32  // and quantized then
                                                      : options.format;
  const Family& f = *w->family;
  Checkpoint checkpoint(w->files, files.name(), f.prefix, anchor);
  const std::string pooler = std::string(f.prefix) + std::string(f.pooler);
  w->has_pooler =
      !f.pooler.empty() && (checkpoint.find(pooler + ".weight") || checkpoint.find(pooler + ".bias"));
  w->heads = heads_of(checkpoint, *w);
  w->declare();
  for (const TensorSpec& t : w->tensors) checkpoint.get(t);
  know_unused(checkpoint, *w);
  checkpoint.report_others(w->tensors, options);
  return {std::move(w), std::move(checkpoint)};
}

}  // namespace

void check_checkpoint(const std::filesystem::path& directory) {
  open_checkpoint(directory, {.strict = true});
}

Model Model::load(const ModelFiles& files, const WeightsOptions& options) {
  const Opened opened = open_checkpoint(files, options);
  const std::shared_ptr<Weights>& w = opened.weights;
  w->memory = load_tensors(w->tensors, opened.checkpoint);
  w->word.row_scales = w->word_scales.data;
  w->language_model.decoder.row_scales = w->language_model.decoder_scales.data;
  if (options.format == WeightFormat::kInt8 && w->format != options.format)
    return Model(w).quantized(SomeTokens(w->config).batch());
  return Model(w);
}

Model Model::random(const Config& config, uint64_t seed, const std::vector<Head>& heads,
                    WeightFormat format) {
  config.check("config");
  auto w = std::make_shared<Weights>(config, "config");
  const bool quantize = format == WeightFormat::kInt8;
  w->heads = heads, w->format = quantize ? WeightFormat::kFloat32 : format;
  if (w->family->causal && config.tied && !w->has(Head::kCausalLm)) w->heads.push_back(Head::kCausalLm);
  w->declare();
  w->memory = random_tensors(w->tensors, seed, w->tables);
  return quantize ? Model(w).quantized(SomeTokens(config).batch()) : Model(std::move(w));
}

Model Model::quantized(const Batch& sample) const {
  if (weights_->format == WeightFormat::kInt8) return *this;
  return Model(quantized_weights(*this, sample));
}

WeightFormat Model::format() const { return weights_->format; }

Model Model::pruned(std::span<const WhichHead> gone) const {
  if (format() == WeightFormat::kInt8)
    throw Error("a quantized model cannot be pruned", "prune the model first, then quantize it", "precision");
  return Model(pruned_weights(weights_, gone));
}

namespace {

// The class of transformers that has just these heads.
std::string architecture_of(const Weights& w) {
  if (!w.config.architecture.empty()) return w.config.architecture;
  const std::string name(w.family->class_name);
  if (w.has(Head::kMaskedLm) && w.has(Head::kNextSentence)) return name + "ForPreTraining";
  for (Head head : {Head::kClassify, Head::kTag, Head::kAnswer, Head::kMaskedLm, Head::kNextSentence,
                    Head::kCausalLm})  // fine-tuned ones first
    if (w.has(head)) return name + std::string(name_of(head).suffix);
  return name + "Model";
}

}  // namespace

void save_weights(const Weights& w, const std::filesystem::path& directory, Precision precision) {
  Config config = w.config;
  config.architecture = architecture_of(w);
  const bool bare = config.architecture.ends_with("Model") && !config.architecture.ends_with("HeadModel");
  // Where the decoder is not tied, transformers misses the head's bias although it adds the decoder's.
  std::vector<TensorSpec> tensors = w.tensors;
  const Family::LanguageModel& lm = w.family->language_model;
  for (const TensorSpec& t : w.tensors)
    if (!lm.bias.empty() && lm.bias != t.name && t.name == std::string(lm.decoder) + ".bias")
      tensors.push_back(t), tensors.back().name = lm.bias;
  save_checkpoint(directory, precision, tensors, bare ? w.family->prefix : "", config.to_json());
}

void Model::save(const std::filesystem::path& directory, Precision precision) const {
  save_weights(*weights_, directory, precision);
}

const Config& Model::config() const { return weights_->config; }
bool Model::has_pooler() const { return weights_->has_pooler; }
bool Model::has(Head head) const { return weights_->has(head); }

size_t Model::parameters() const { return count_elements(weights_->tensors); }

size_t Model::bytes() const {
  size_t bytes = weights_->memory.size();
  for (const TensorSpec& t : weights_->tensors)
    if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) bytes += (*table)->data.size();
  return bytes;
}

}  // namespace bertie
