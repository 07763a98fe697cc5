#include "bertie/atlas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bertie/error.h"
#include "bertie/json_writer.h"
#include "core/parallel.h"
#include "explain/head_texts.h"
#include "io/base64.h"
#include "io/half.h"

namespace bertie {
namespace {

constexpr size_t kMostHalfWeights = size_t{4} << 20;   // that a file may have as float16,
constexpr size_t kMostByteWeights = size_t{32} << 20;  // and as bytes

uint8_t byte_of(float weight) {
  return uint8_t(std::lround(255 * std::sqrt(std::clamp(weight, 0.0f, 1.0f))));
}

void draw(Matrix<const float> weights, size_t side, uint8_t* to) {
  const size_t n = weights.rows();
  std::vector<float> most(side);
  // Row r belongs to the block r·side/n; with side ≤ n no block is empty.
  for (size_t r = 0, block = 0; block < side; ++block) {
    std::ranges::fill(most, 0.0f);
    for (; r < n && r * side / n == block; ++r)
      for (size_t c = 0; c < n; ++c) {
        float& m = most[c * side / n];
        m = std::max(m, weights(r, c));
      }
    for (size_t c = 0; c < side; ++c) *to++ = byte_of(most[c]);
  }
}

HeadSummary summary_of(Matrix<const float> weights, const std::vector<uint8_t>& kinds) {
  const size_t n = weights.rows();
  double entropy = 0, distance = 0, previous = 0, next = 0, self = 0;
  std::array<double, 3> special{};
  for (size_t i = 0; i < n; ++i) {
    const float* row = weights.row(i);
    float sum = 0, far = 0;
    std::array<float, 3> of_kind{};
    for (size_t j = 0; j < n; ++j) {
      const float w = row[j];
      if (w > 0) sum -= w * std::log(w);
      far += w * float(j > i ? j - i : i - j);
      of_kind[kinds[j]] += w;
    }
    entropy += sum, distance += far, self += row[i];
    for (size_t k = 0; k < special.size(); ++k) special[k] += of_kind[k];
    if (i > 0) previous += row[i - 1];
    if (i + 1 < n) next += row[i + 1];
  }
  const double rows = double(n);
  return {.entropy = float(entropy / rows),
          .distance = float(distance / rows),
          .cls = float(special[1] / rows),
          .sep = float(special[2] / rows),
          .previous = float(previous / rows),
          .next = float(next / rows),
          .self = float(self / rows)};
}

std::string packed(const std::vector<uint8_t>& bytes) { return io::base64(std::as_bytes(std::span(bytes))); }

void write_weights(JsonWriter& out, const Attention& a) {
  if (a.weights.size() > kMostByteWeights)
    throw Error(fmt::format("the weights of {} layers of {} heads for {} tokens are too many for one page",
                            a.kept.size(), a.heads, a.n()),
                "give a `layer`, or a shorter text");
  if (a.weights.size() <= kMostHalfWeights) {
    std::vector<std::byte> halves(2 * a.weights.size());
    io::float_to_f16(a.weights, halves.data());
    out.field("precision", "float16").field("weights", io::base64(halves));
    return;
  }
  std::vector<uint8_t> bytes(a.weights.size());
  std::ranges::transform(a.weights, bytes.begin(), byte_of);
  out.field("precision", "uint8").field("weights", packed(bytes));
}

}  // namespace

const HeadSummary& Atlas::at(size_t layer, size_t head) const {
  const auto place = std::ranges::find(layers, layer);
  if (place == layers.end() || head >= heads)
    throw Error(fmt::format("the atlas has no layer {}, head {}", layer, head));
  return summaries[size_t(place - layers.begin()) * heads + head];
}

std::vector<uint8_t> weight_picture(Matrix<const float> weights, size_t side) {
  side = std::min(side, weights.rows());
  std::vector<uint8_t> picture(side * side);
  draw(weights, side, picture.data());
  return picture;
}

Atlas atlas(const Attention& attention, const AtlasOptions& options) {
  Atlas all;
  all.heads = attention.heads, all.layers = attention.kept;
  const size_t count = all.layers.size() * all.heads;
  const size_t affordable =
      size_t(std::sqrt(double(options.picture_bytes) / double(std::max<size_t>(count, 1))));
  all.side = std::max<size_t>(std::min({attention.n(), options.side, affordable}), 1);
  all.summaries.resize(count);
  all.pictures.resize(count * all.side * all.side);
  const std::vector<uint8_t> kinds = special_kinds(attention.encoding);
  Team team(options.threads);
  team.parallel_for(count, [&](size_t i) {
    const Matrix<const float> weights = attention.at(all.layers[i / all.heads], i % all.heads);
    all.summaries[i] = summary_of(weights, kinds);
    draw(weights, all.side, all.pictures.data() + i * all.side * all.side);
  });
  return all;
}

std::string to_json(const Atlas& all, const Attention& a, const AtlasJsonOptions& options) {
  JsonWriter out;
  out.begin_object().field("model", options.model).field("text", options.text);
  if (options.pair) out.field("pair", *options.pair);
  out.field("tokens", a.tokens).field("ids", a.encoding.ids).field("types", a.encoding.types);
  out.field("words", a.encoding.words).key("sequences").begin_array();
  for (int8_t sequence : a.encoding.sequences) out.value(int(sequence));
  out.end_array().key("layers").begin_array();
  for (size_t layer : all.layers) out.value(layer + 1);
  out.end_array().field("depth", a.layers).field("heads", all.heads).key("summary").begin_object();
  for (const auto& [name, member] : {std::pair("entropy", &HeadSummary::entropy),
                                     {"distance", &HeadSummary::distance},
                                     {"cls", &HeadSummary::cls},
                                     {"sep", &HeadSummary::sep},
                                     {"previous", &HeadSummary::previous},
                                     {"next", &HeadSummary::next},
                                     {"self", &HeadSummary::self}}) {
    out.key(name).begin_array();
    // Five digits are more than a color or a tooltip can show.
    for (const HeadSummary& one : all.summaries) out.value(std::round(double(one.*member) * 1e5) / 1e5);
    out.end_array();
  }
  out.end_object().field("side", all.side).field("pictures", packed(all.pictures));
  if (options.weights) write_weights(out, a);
  return out.end_object().take();
}

}  // namespace bertie
