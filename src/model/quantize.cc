#include "model/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <string>

#include "bertie/error.h"
#include "kernels/int8.h"
#include "model/access.h"
#include "model/trunk.h"

namespace bertie {

void InputRanges::see(const kernels::Linear& layer, Matrix<const float> x) {
  std::vector<float>& largest = largest_[&layer];
  largest.resize(layer.inputs);
  for (size_t r = 0; r < x.rows(); ++r)
    for (size_t k = 0; k < layer.inputs; ++k) largest[k] = std::max(largest[k], std::abs(x(r, k)));
}

std::vector<uint32_t> InputRanges::largest(const kernels::Linear& layer, size_t count) const {
  std::vector<uint32_t> columns(layer.inputs);
  std::iota(columns.begin(), columns.end(), 0u);
  if (const auto seen = largest_.find(&layer); seen != largest_.end())
    std::stable_sort(columns.begin(), columns.end(),
                     [&](uint32_t a, uint32_t b) { return seen->second[a] > seen->second[b]; });
  columns.resize(count);
  std::sort(columns.begin(), columns.end());
  return columns;
}

namespace {

InputRanges measured(const Model& model, const Batch& sample) {
  const Weights& w = weights_of(model);
  check_batch(sample, w.trunk.embeddings, w.config.max_tokens(), nullptr);
  InputRanges ranges;
  Pass pass(0);
  pass.ranges = &ranges;
  TrunkPass trunk(w.trunk, pass);
  trunk.start(sample, {});
  pass.arena.run([&] { trunk.forward(); });
  return ranges;
}

bool is_finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
}

[[noreturn]] void refuse_row(const std::string& tensor, size_t row) {
  throw Error(fmt::format("tensor {}: row {} is not finite, and cannot be quantized", tensor, row));
}

// A table's rows as integers, and their scales: in `memory`, which lives as long as the weights.
void quantize_table(const io::TensorInfo& from, io::TensorInfo& to, io::TensorInfo& scales,
                    std::vector<Block>& memory) {
  const size_t rows = from.shape[0], cols = from.shape[1];
  Block numbers(rows * cols), factors(rows * sizeof(float));
  Team team(available_threads());
  std::atomic<size_t> bad = 0;
  team.parallel_for((rows + kernels::kPanel - 1) / kernels::kPanel, [&](size_t chunk) {
    std::vector<float> row(cols), q(cols);
    for (size_t r = chunk * kernels::kPanel; r < std::min(rows, (chunk + 1) * kernels::kPanel); ++r) {
      io::to_float(from, r * cols, row);
      if (!is_finite(row)) bad = r + 1;
      factors.as<float>()[r] = kernels::quantize_row_of_weights(row, {}, q);
      for (size_t k = 0; k < cols; ++k) numbers.as<int8_t>()[r * cols + k] = int8_t(q[k]);
    }
  });
  if (bad > 0) refuse_row(from.name, bad - 1);
  to = {
      .name = from.name, .dtype = io::DType::kI8, .shape = from.shape, .data = {numbers.data(), rows * cols}};
  scales = {.name = from.name + "_scale",
            .dtype = io::DType::kF32,
            .shape = {rows},
            .data = {factors.data(), rows * sizeof(float)}};
  to.row_scales = scales.data;
  memory.push_back(std::move(numbers)), memory.push_back(std::move(factors));
}

// Row `row` of a tensor as the model sees it, of a matrix that may be stored the other way round.
void read_row(const TensorSpec& t, size_t row, std::span<float> out) {
  if (!t.transposed) return read_back(t, row * t.cols(), out);
  for (size_t k = 0; k < out.size(); ++k) read_back(t, k * t.rows() + row, out.subspan(k, 1));
}

}  // namespace

std::shared_ptr<Weights> quantized_weights(const Model& model, const Batch& sample) {
  const Weights& from = weights_of(model);
  if (from.format != WeightFormat::kFloat32)
    throw Error("only a model in fp32 can be quantized", "load it in fp32", "precision");
  const InputRanges ranges = measured(model, sample);
  auto w = std::make_shared<Weights>(from.config, "config");
  w->has_pooler = from.has_pooler, w->heads = from.heads, w->format = WeightFormat::kInt8;
  w->declare();
  w->memory = allocate(w->tensors);
  quantize_table(from.word, w->word, w->word_scales, w->tables);
  if (!from.language_model.decoder.shape.empty())
    quantize_table(from.language_model.decoder, w->language_model.decoder, w->language_model.decoder_scales,
                   w->tables);

  std::map<std::string, const TensorSpec*> before;
  for (const TensorSpec& t : from.tensors) before[t.name] = &t;
  fill(w->tensors, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    if (!t.stored) return read_back(*before.at(t.name), first, out);
    // A part of a layer of integers: what it is made from is the layer's weight.
    const TensorSpec& weight = *before.at(t.name.substr(0, t.name.rfind('.')) + ".weight");
    const kernels::Linear& linear = *std::get<TensorSpec::Rows>(weight.to).linear;
    const size_t exact = kernels::exact_columns_for(linear.inputs);
    const std::vector<uint32_t> columns = ranges.largest(linear, exact);
    if (std::holds_alternative<TensorSpec::ExactColumns>(t.to))
      return (void)std::copy(columns.begin(), columns.end(), out.begin());
    std::vector<float> row(linear.inputs), q(linear.inputs);
    const size_t each = t.shape.size() == 1 ? 1 : t.shape[1];  // numbers of a row
    for (size_t i = 0; i < out.size(); i += each) {
      read_row(weight, (first + i) / each, row);
      if (!is_finite(row)) refuse_row(weight.name, (first + i) / each);
      const float scale = kernels::quantize_row_of_weights(row, columns, q);
      if (std::holds_alternative<TensorSpec::Rows>(t.to)) std::copy(q.begin(), q.end(), &out[i]);
      if (std::holds_alternative<TensorSpec::Scales>(t.to)) out[i] = scale;
      if (std::holds_alternative<TensorSpec::ExactRows>(t.to))
        for (size_t e = 0; e < exact; ++e) out[i + e] = row[columns[e]];
    }
  });
  return w;
}

}  // namespace bertie
