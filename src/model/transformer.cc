// Making a Transformer: from a checkpoint, or random; and saving it.
#include "bertie/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "bertie/error.h"
#include "io/model_file_names.h"
#include "model/cache.h"
#include "model/transformer_weights.h"

namespace bertie {
namespace {

const std::string kSides[] = {"model.encoder.", "model.decoder."};

// Older checkpoints hold the positions too. They must be the sinusoids that are computed here: a table that
// was learned is another model.
void check_positions(Checkpoint& checkpoint, const TransformerWeights& w, const std::string& where) {
  for (const std::string& side : kSides) {
    const std::string name = side + "embed_positions.weight";
    const io::TensorInfo* table = checkpoint.find(name);
    if (!table) continue;
    float* nowhere = nullptr;
    checkpoint.get({name, {w.config.positions, w.config.hidden}, false, &nowhere});
    std::vector<float> row(w.config.hidden);
    for (size_t p = 0; p < w.config.positions; ++p) {
      io::to_float(*table, p * row.size(), row);
      for (size_t c = 0; c < row.size(); ++c)
        if (!(std::abs(row[c] - w.position(p, c)) <= 0x1p-8f))  // what bfloat16 keeps of numbers up to 1
          throw Error(fmt::format("{}: tensor {} is not the sinusoids of the Transformer", where, name),
                      "a model with learned positions is another network");
    }
  }
}

}  // namespace

Transformer Transformer::load(const ModelFiles& files, const WeightsOptions& options) {
  if (!files.exists())
    throw Error(fmt::format("no model at {}", files.name()),
                "a folder with config.json and model.safetensors");
  const std::string where = files.name();
  auto w =
      std::make_shared<TransformerWeights>(TransformerConfig::load(files), files.name_of(io::kConfigFile));
  w->files = io::SafeTensors::open(files);
  Checkpoint checkpoint(w->files, where, "model.", "shared.weight");
  w->has_logits_bias = checkpoint.find("final_logits_bias");
  if (options.format == WeightFormat::kInt8)
    throw Error("an encoder-decoder cannot be held in int8", "bf16, or fp32", "precision");
  w->format = options.format;
  w->declare();
  for (const TensorSpec& t : w->tensors) checkpoint.get(t);  // all errors before the work
  w->place();
  check_positions(checkpoint, *w, where);
  // Copies of the one table of words.
  for (const std::string& side : kSides) checkpoint.know(side + "embed_tokens.weight");
  checkpoint.know("lm_head.weight");
  checkpoint.report_others(w->tensors, options);
  w->memory = load_tensors(w->tensors, checkpoint);
  return Transformer(std::move(w));
}

Transformer Transformer::random(const TransformerConfig& config, uint64_t seed) {
  config.check("config");
  auto w = std::make_shared<TransformerWeights>(config, "config");
  w->declare();
  w->place();
  w->memory = random_tensors(w->tensors, seed, w->tables);
  return Transformer(std::move(w));
}

void Transformer::save(const std::filesystem::path& directory, Precision precision) const {
  save_checkpoint(directory, precision, weights_->tensors, "", weights_->config.to_json());
}

const TransformerConfig& Transformer::config() const { return weights_->config; }
size_t Transformer::parameters() const { return count_elements(weights_->tensors); }

Cache::Cache(const Transformer& model, size_t sequences) {
  const TransformerConfig& c = model.config();
  state_ = std::make_unique<KeyValues>(KeyValues{c.decoder_layers, c.hidden, c.positions, {}});
  state_->sequences.resize(sequences);
}

}  // namespace bertie
