// Making a Model: from a checkpoint, or random.
#include "bertie/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "bertie/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "model/weights.h"

namespace bertie {

kernels::Activation activation_named(const std::string& name, const std::string& file) {
  using kernels::Activation;
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"gelu", Activation::gelu},           {"gelu_python", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"relu", Activation::relu},
      {"silu", Activation::silu},           {"swish", Activation::silu},
      {"tanh", Activation::tanh},
  };
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  throw Error(fmt::format("{}: hidden_act is {}, which is not known", file, io::quote(name)),
              "known are gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish and tanh");
}

namespace {

// Lays all tensors out in one block: walks the table twice, once to add sizes up, once to set pointers.
void allocate(Weights& w) {
  const Config& c = w.config;
  w.embedding_norm.eps = float(c.layer_norm_eps);
  w.layers.resize(c.layers);
  for (auto& layer : w.layers) {
    layer.attention_norm.eps = layer.output_norm.eps = float(c.layer_norm_eps);
    layer.qkv = {.inputs = c.hidden, .outputs = 3 * c.hidden};
    layer.attention_out = {.inputs = c.hidden, .outputs = c.hidden};
    layer.up = {.inputs = c.hidden, .outputs = c.intermediate};
    layer.down = {.inputs = c.intermediate, .outputs = c.hidden};
  }
  w.pooler = {.inputs = c.hidden, .outputs = c.hidden};
  size_t used = 0;
  std::byte* base = nullptr;
  const auto place = [&](float*& pointer, size_t floats) {
    if (base) pointer = reinterpret_cast<float*>(base + used);
    used += Arena::bytes_for<float>(floats);
  };
  const auto walk = [&] {
    used = 0;
    for_each_tensor(w, [&](const TensorSpec& t) {
      if (auto* plain = std::get_if<float**>(&t.to)) {
        place(**plain, t.rows * t.cols);
      } else if (auto* rows = std::get_if<TensorSpec::Rows>(&t.to); rows && rows->first_row == 0) {
        kernels::Linear& l = *rows->linear;
        place(l.packed, kernels::packed_floats(l.outputs, l.inputs));
        place(l.bias, kernels::panels_for(l.outputs) * kernels::kPanel);
      }
    });
  };
  walk();
  w.memory = Block(used);
  base = w.memory.data();
  walk();
}

// Fills everything but the word table: `read(tensor, first, out)` gives a tensor's elements, and is called
// from several threads.
template <class Read>
void fill(Weights& w, const Read& read) {
  struct Piece {
    size_t tensor, first_row, rows;
  };
  std::vector<TensorSpec> tensors;
  std::vector<Piece> pieces;
  for_each_tensor(w, [&](const TensorSpec& t) {
    if (std::holds_alternative<io::TensorInfo*>(t.to)) return;
    const size_t step = std::holds_alternative<TensorSpec::Rows>(t.to) ? kernels::kPanel : t.rows;
    for (size_t r = 0; r < t.rows; r += step)
      pieces.push_back({tensors.size(), r, std::min(step, t.rows - r)});
    tensors.push_back(t);
  });
  Team team(std::min(available_threads(), 8));
  std::vector<std::vector<float>> scratch(size_t(team.threads()));
  std::mutex mutex;
  std::exception_ptr error;
  team.parallel_for(pieces.size(), [&](size_t i, size_t worker) {
    const TensorSpec& t = tensors[pieces[i].tensor];
    const size_t first = pieces[i].first_row, count = pieces[i].rows * t.cols;
    try {
      if (auto* plain = std::get_if<float**>(&t.to)) {
        read(t, first * t.cols, std::span(**plain + first * t.cols, count));
      } else if (auto* bias = std::get_if<TensorSpec::Bias>(&t.to)) {
        read(t, 0, std::span(bias->linear->bias + bias->first_row, t.cols));
      } else {
        const auto& rows = std::get<TensorSpec::Rows>(t.to);
        scratch[worker].resize(count);
        read(t, first * t.cols, std::span(scratch[worker]));
        kernels::pack_rows({scratch[worker].data(), pieces[i].rows, t.cols}, rows.first_row + first,
                           *rows.linear);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

// Finds checkpoint tensors under the names of today's and of older files.
class Checkpoint {
 public:
  Checkpoint(const io::SafeTensors& files, std::string where) : files_(files), where_(std::move(where)) {
    constexpr std::string_view kAnchor = "embeddings.word_embeddings.weight";
    for (const io::TensorInfo& t : files.tensors())
      if (t.name.ends_with(kAnchor)) prefix_ = t.name.substr(0, t.name.size() - kAnchor.size());
  }

  const io::TensorInfo* find(const std::string& name) const {
    if (const auto* found = files_.find(prefix_ + name)) return found;
    // TensorFlow's names for LayerNorm, which early PyTorch checkpoints kept.
    if (name.ends_with("LayerNorm.weight"))
      return files_.find(prefix_ + name.substr(0, name.size() - 6) + "gamma");
    if (name.ends_with("LayerNorm.bias"))
      return files_.find(prefix_ + name.substr(0, name.size() - 4) + "beta");
    return nullptr;
  }

  const io::TensorInfo& get(const TensorSpec& spec) const {
    const io::TensorInfo* found = find(spec.name);
    if (!found)
      throw Error(fmt::format("{}: tensor {} is missing", where_, prefix_ + spec.name),
                  "config.json and the weights may belong to different models, or the file is incomplete");
    const std::vector<size_t> matrix{spec.rows, spec.cols}, vector{spec.cols};
    if (found->shape != matrix && !(spec.rows == 1 && found->shape == vector))
      throw Error(
          fmt::format("{}: tensor {} has shape [{}] but config.json asks for [{}]", where_, found->name,
                      fmt::join(found->shape, ", "), fmt::join(spec.rows == 1 ? vector : matrix, ", ")),
          "config.json and the weights belong to different models");
    if (found->dtype != io::DType::kF32 && found->dtype != io::DType::kF16 &&
        found->dtype != io::DType::kBF16)
      throw Error(fmt::format("{}: tensor {} is {}; weights must be F32, F16 or BF16", where_, found->name,
                              io::name_of(found->dtype)));
    return *found;
  }

 private:
  const io::SafeTensors& files_;
  std::string where_, prefix_;
};

}  // namespace

Model Model::load(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error))
    throw Error(
        fmt::format("no model at {}", directory.string()),
        "give the path of a directory with config.json, model.safetensors and vocab.txt or tokenizer.json");
  auto w = std::make_shared<Weights>();
  w->config = Config::load(directory);
  w->activation = activation_named(w->config.activation, (directory / "config.json").string());
  w->files = io::SafeTensors::open(directory);
  const Checkpoint checkpoint(w->files, directory.string());
  w->has_pooler = checkpoint.find("pooler.dense.weight") != nullptr;
  for_each_tensor(*w, [&](const TensorSpec& t) { checkpoint.get(t); });  // all errors before the work
  allocate(*w);
  for_each_tensor(*w, [&](const TensorSpec& t) {
    if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) **table = checkpoint.get(t);
  });
  fill(*w, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    io::to_float(checkpoint.get(t), first, out);
  });
  return Model(std::move(w));
}

Model Model::random(const Config& config, uint64_t seed) {
  config.check("config");
  auto w = std::make_shared<Weights>();
  w->config = config;
  w->activation = activation_named(config.activation, "config");
  allocate(*w);
  // Uniform with BERT's standard deviation of 0.02; LayerNorm's gamma is 1, every beta and bias small.
  // A stream for every tensor and place in it, named by FNV-1a: the same everywhere.
  const auto uniform = [seed](const std::string& name, size_t first, std::span<float> out) {
    uint64_t stream = 0xCBF29CE484222325;
    for (char c : name + "@" + std::to_string(first)) stream = (stream ^ uint8_t(c)) * 0x100000001B3;
    Random random(seed, stream);
    for (float& x : out) x = (random.uniform() - 0.5f) * 0.0692820323f;
  };
  const size_t table = config.vocabulary * config.hidden;
  Block words(table * sizeof(float));
  Team team(available_threads());
  const size_t rows = 1024, chunks = (config.vocabulary + rows - 1) / rows;
  team.parallel_for(chunks, [&](size_t chunk) {
    const size_t first = chunk * rows * config.hidden;
    uniform("words", first, {words.as<float>() + first, std::min(rows * config.hidden, table - first)});
  });
  w->word = {.name = "embeddings.word_embeddings.weight",
             .dtype = io::DType::kF32,
             .shape = {config.vocabulary, config.hidden},
             .data = {words.data(), table * sizeof(float)}};
  w->words = std::move(words);
  fill(*w, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    if (t.name.ends_with("LayerNorm.weight"))
      std::fill(out.begin(), out.end(), 1.0f);
    else
      uniform(t.name, first, out);
  });
  return Model(std::move(w));
}

const Config& Model::config() const { return weights_->config; }
bool Model::has_pooler() const { return weights_->has_pooler; }

}  // namespace bertie
