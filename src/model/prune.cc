// Removing heads: rows of W^Q, W^K, W^V and columns of W^O go, everything else stays as it is.
#include "model/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bertie/error.h"
#include "model/trunk.h"

namespace bertie {
namespace {

Config without_heads(Config config, std::span<const WhichHead> heads) {
  check_heads_exist(heads, config);
  if (config.pruned_heads.empty()) config.pruned_heads.resize(config.layers);
  for (const WhichHead& which : heads) {
    if (which.layer >= config.layers) continue;  // of a model that shares layers: check says so
    std::vector<size_t>& gone = config.pruned_heads[which.layer];
    gone.push_back(which.head);
    std::sort(gone.begin(), gone.end());
    gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
    if (gone.size() == config.heads)
      throw Error(fmt::format("layer {} would have no head left", which.layer),
                  "leave one head of each layer; to go without a layer, `distill` a smaller model", "heads");
  }
  config.check("the pruned model");
  return config;
}

// Where a number of what a layer's heads have together was before: heads are blocks of D, and there may be
// several runs of all heads, one after the other (queries, keys, values as one tensor).
class Before {
 public:
  Before(const Config& now, const Config& then, size_t layer)
      : d_(now.head_size()), width_(now.attention_size(layer)), width_before_(then.attention_size(layer)) {
    const std::vector<size_t> there = then.heads_of(layer);
    for (const size_t head : now.heads_of(layer))
      places_.push_back(size_t(std::find(there.begin(), there.end(), head) - there.begin()));
  }
  size_t operator()(size_t i) const {
    const size_t run = i / width_, within = i % width_;
    return run * width_before_ + places_[within / d_] * d_ + within % d_;
  }

 private:
  size_t d_, width_, width_before_;
  std::vector<size_t> places_;
};

// The layer whose queries, keys and values, or whose W^O, a tensor is a part of.
struct Owner {
  size_t layer = 0;
  bool out = false;
};
std::optional<Owner> owner_of(const TensorSpec& t, const Weights& w) {
  const kernels::Linear* linear = nullptr;
  if (const auto* rows = std::get_if<TensorSpec::Rows>(&t.to)) linear = rows->linear;
  if (const auto* bias = std::get_if<TensorSpec::Bias>(&t.to)) linear = bias->linear;
  for (size_t l = 0; l < w.trunk.layers.size() && linear; ++l) {
    if (linear == &w.trunk.layers[l].qkv) return Owner{l, false};
    if (linear == &w.trunk.layers[l].attention_out) return Owner{l, true};
  }
  return {};
}

}  // namespace

std::shared_ptr<Weights> pruned_weights(const std::shared_ptr<const Weights>& from,
                                        std::span<const WhichHead> heads) {
  auto w = std::make_shared<Weights>(without_heads(from->config, heads), "config");
  w->has_pooler = from->has_pooler, w->heads = from->heads, w->format = from->format;
  w->origin = from;
  w->declare();
  std::map<std::string_view, const TensorSpec*> before;
  for (const TensorSpec& t : from->tensors) before[t.name] = &t;
  w->memory = allocate(w->tensors);
  for (const TensorSpec& t : w->tensors)
    if (auto* table = std::get_if<io::TensorInfo*>(&t.to))
      **table = *std::get<io::TensorInfo*>(before.at(t.name)->to);
  fill(w->tensors, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    const TensorSpec& old = *before.at(t.name);
    const std::optional<Owner> owner = owner_of(t, *w);
    if (!owner || t.shape == old.shape) return read_back(old, first, out);
    const Before place(w->config, from->config, owner->layer);
    for (size_t i = 0; i < out.size(); ++i) {
      size_t row = 0, col = first + i;  // of a bias
      if (t.shape.size() == 2) row = (first + i) / t.shape[1], col = (first + i) % t.shape[1];
      // In the file's order: which of the two counts what heads have.
      const bool of_cols = t.shape.size() == 1 || owner->out != t.transposed;
      (of_cols ? col : row) = place(of_cols ? col : row);
      read_back(old, t.shape.size() == 1 ? col : row * old.shape[1] + col, out.subspan(i, 1));
    }
  });
  return w;
}

}  // namespace bertie
