#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.h"

namespace bertie {

namespace {

bool is_bias(const TensorSpec& t) { return t.name.ends_with("bias"); }

}  // namespace

Block allocate_gradients(const std::vector<TensorSpec>& tensors) {
  Block memory = allocate(tensors, true);
  for (const TensorSpec& t : tensors)
    if (const auto* rows = std::get_if<TensorSpec::Rows>(&t.to);
        rows && std::none_of(tensors.begin(), tensors.end(), [&](const TensorSpec& other) {
          const auto* bias = std::get_if<TensorSpec::Bias>(&other.to);
          return bias && bias->linear == rows->linear;
        }))
      rows->linear->bias = nullptr;
  return memory;
}

std::vector<Segment> segments_of(const std::vector<TensorSpec>& tensors, const float* flat) {
  std::vector<Segment> segments;
  const auto add = [&](const std::string& name, const float* at, size_t count, bool decays) {
    segments.push_back({name, size_t(at - flat), count, decays});
  };
  for (const TensorSpec& t : tensors) {
    const bool matrix = !is_bias(t) && t.shape.size() > 1;
    if (auto* plain = std::get_if<float**>(&t.to))
      add(t.name, **plain, t.elements(), matrix);
    else if (auto* table = std::get_if<io::TensorInfo*>(&t.to))
      add(t.name, table_numbers(**table), t.elements(), true);
    else if (auto* rows = std::get_if<TensorSpec::Rows>(&t.to); rows && rows->first_row == 0)
      add(t.name, rows->linear->floats(), kernels::packed_floats(rows->linear->outputs, rows->linear->inputs),
          true);
    else if (auto* bias = std::get_if<TensorSpec::Bias>(&t.to); bias && bias->first_row == 0)
      add(t.name, bias->linear->bias, bias->linear->outputs, false);
  }
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.first < b.first; });
  return segments;
}

void initialize(const std::vector<TensorSpec>& tensors, uint64_t seed,
                const std::function<float(const TensorSpec&)>& deviation_of) {
  const auto draw = [&](const TensorSpec& t, size_t first, std::span<float> out) {
    if (t.initial) return std::fill(out.begin(), out.end(), *t.initial);
    if (is_bias(t)) return std::fill(out.begin(), out.end(), 0.0f);
    if (t.shape.size() == 1) return std::fill(out.begin(), out.end(), 1.0f);  // a norm's gamma
    const Random random(seed, name_hash(t.name));
    const float deviation = deviation_of(t);
    for (size_t i = 0; i < out.size(); ++i) {
      // Four words are two normal numbers (Box-Muller); nearly always one of them is within two deviations.
      double normal = 3;
      for (uint64_t attempt = 0; std::abs(normal) > 2; ++attempt) {
        const auto words = random.at(first + i + (attempt << 48));
        for (size_t k = 0; k < 4 && std::abs(normal) > 2; k += 2)
          normal = std::sqrt(-2 * std::log((words[k] + 0.5) * 0x1p-32)) *
                   std::cos(2 * std::numbers::pi * (words[k + 1] + 0.5) * 0x1p-32);
      }
      out[i] = deviation * float(normal);
    }
  };
  fill(tensors, draw, true);
}

std::vector<std::string> load_parameters(const std::vector<TensorSpec>& tensors, Checkpoint& checkpoint,
                                         const std::function<bool(const TensorSpec&, bool there)>& keep) {
  std::vector<std::string> kept;
  std::vector<TensorSpec> read;
  for (const TensorSpec& t : tensors)
    if (keep(t, checkpoint.find(t.name) != nullptr))
      kept.push_back(t.name);
    else
      checkpoint.get(t), read.push_back(t);
  fill(
      read,
      [&](const TensorSpec& t, size_t first, std::span<float> out) {
        io::to_float(*checkpoint.find(t.name), first, out);
      },
      true);
  return kept;
}

}  // namespace bertie
