#include "model/nearby.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "bertie/error.h"

namespace bertie {
namespace {

// How far a head looks, back or ahead; the first six of a layer do. Not all layers look as far.
std::optional<int> offset_of(size_t layer, size_t head) {
  constexpr int kDistances[2][3] = {{1, 2, 4}, {1, 3, 6}};
  if (head >= 6) return {};
  const int distance = kDistances[layer % 2][head / 2];
  return head % 2 == 0 ? -distance : distance;
}

class Nearby {
 public:
  Nearby(const TrunkWeights& trunk, float deviation)
      : trunk_(trunk),
        head_width_(trunk.shape.hidden / trunk.shape.heads),
        places_(head_width_ / 2 * 2),
        amplitude_(deviation * std::numbers::sqrt2_v<float>),
        // Behind the embeddings' norm, where words and types have their share, a sine is some 1.2 high, and
        // the score of a match 3.4: a fifth of the attention among a hundred other words.
        gain_(std::sqrt(5 / std::sqrt(float(head_width_)))) {}

  bool changes(const TensorSpec& t) const { return is_embedding(t) || layer_of(t); }

  // What becomes of a fresh number.
  float of(const TensorSpec& t, float fresh, size_t row, size_t column) const {
    const std::optional<size_t> layer = layer_of(t);
    if (layer) return fresh + projection(t, *layer, row, column);
    if (!is(t, trunk_.embeddings.position)) return column < places_ ? 0 : fresh;
    if (column >= places_) return 0;
    const double angle = double(row) * frequency(column / 2);
    return amplitude_ * float(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }

 private:
  static bool is(const TensorSpec& t, float* const& numbers) {
    auto* const* to = std::get_if<float**>(&t.to);
    return to && *to == &numbers;
  }
  bool is_embedding(const TensorSpec& t) const {
    auto* const* word = std::get_if<io::TensorInfo*>(&t.to);
    return (word && *word == trunk_.embeddings.word) || is(t, trunk_.embeddings.position) ||
           is(t, trunk_.embeddings.type);
  }
  // Of queries and keys.
  std::optional<size_t> layer_of(const TensorSpec& t) const {
    const auto* rows = std::get_if<TensorSpec::Rows>(&t.to);
    for (size_t l = 0; rows && l < trunk_.layers.size(); ++l)
      if (rows->linear == &trunk_.layers[l].qkv && rows->first_row < 2 * trunk_.shape.hidden) return l;
    return {};
  }

  // Rows 2j and 2j + 1 of a head read the sine and cosine of frequency j; queries turn them, for
  // sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b − sin a sin b.
  float projection(const TensorSpec& t, size_t layer, size_t row, size_t column) const {
    const std::optional<int> offset = offset_of(layer, row / head_width_);
    const size_t in_head = row % head_width_;
    if (!offset || column >= places_ || in_head / 2 != column / 2) return 0;
    const bool query = std::get<TensorSpec::Rows>(t.to).first_row == 0;
    const double turn = query ? *offset * frequency(column / 2) : 0;
    if (in_head == column) return gain_ * float(std::cos(turn));
    return gain_ * float(column % 2 == 1 ? std::sin(turn) : -std::sin(turn));
  }

  // From 2.5 radians a token, which tells neighbours apart, to a fortieth of it.
  double frequency(size_t j) const {
    return 2.5 * std::pow(40, -double(j) / std::max<double>(1, double(places_ / 2) - 1));
  }

  const TrunkWeights& trunk_;
  size_t head_width_, places_;
  float amplitude_, gain_;
};

}  // namespace

void look_nearby(const std::vector<TensorSpec>& tensors, const TrunkWeights& trunk, float deviation) {
  const EmbeddingWeights& e = trunk.embeddings;
  const bool pruned = std::any_of(trunk.layers.begin(), trunk.layers.end(), [&](const LayerWeights& l) {
    return l.qkv.outputs != 3 * trunk.shape.hidden;
  });
  if (e.width != trunk.shape.hidden || trunk.shape.norm_first || !e.learns_positions || pruned)
    throw Error(
        "`initial` nearby is for encoders whose positions are added to words at the layers' width, as BERT's "
        "are",
        "`initial` random", "initial");
  const Nearby nearby(trunk, deviation);
  std::vector<TensorSpec> changed;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(changed),
               [&](const TensorSpec& t) { return nearby.changes(t); });
  const auto change = [&](const TensorSpec& t, size_t first, std::span<float> out) {
    read_back(t, first, out);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = nearby.of(t, out[i], (first + i) / t.cols(), (first + i) % t.cols());
  };
  fill(changed, change, true);
}

}  // namespace bertie
