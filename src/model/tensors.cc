#include "model/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "core/parallel.h"
#include "core/random.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "io/safetensors_writer.h"
#include "kernels/int8.h"
#include "model/rename.h"

namespace bertie {

void TensorTable::mapped(const std::string& name, io::TensorInfo& to, size_t rows, size_t cols) {
  tensors.push_back({name, {rows, cols}, false, &to});
}

void TensorTable::mapped(const std::string& name, io::TensorInfo& to, io::TensorInfo& scales, size_t rows,
                         size_t cols) {
  tensors.push_back({.name = name, .shape = {rows, cols}, .to = &to, .stored = io::DType::kI8});
  tensors.push_back({.name = name + "_scale", .shape = {rows}, .to = &scales, .stored = io::DType::kF32});
}

void TensorTable::matrix(const std::string& name, float*& to, size_t rows, size_t cols) {
  tensors.push_back({name, {rows, cols}, false, &to});
}

void TensorTable::vector(const std::string& name, float*& to, size_t size) {
  tensors.push_back({name, {size}, false, &to});
}

void TensorTable::linear(const std::string& name, kernels::Linear& to, size_t rows, size_t cols,
                         bool transposed, bool bias, Part part) {
  to.inputs = cols, to.outputs = part.outputs ? part.outputs : rows, to.format = format;
  if (to.is_int8() && cols > kernels::kMostInt8Inputs) to.format = WeightFormat::kFloat32;
  if (to.is_int8()) {
    const size_t first = part.first_row, exact = kernels::exact_columns_for(cols);
    using enum io::DType;
    const auto add = [&](const char* what, std::vector<size_t> shape, auto where, io::DType stored) {
      tensors.push_back({.name = name + what, .shape = std::move(shape), .to = where, .stored = stored});
    };
    add(".weight", {rows, cols}, TensorSpec::Rows{&to, first}, kI8);
    add(".weight_scale", {rows}, TensorSpec::Scales{&to, first}, kF32);
    if (exact > 0) add(".exact_weight", {rows, exact}, TensorSpec::ExactRows{&to, first}, kF32);
    if (exact > 0 && first == 0) add(".exact_columns", {exact}, TensorSpec::ExactColumns{&to}, kI32);
  } else {
    const std::vector<size_t> shape = transposed ? std::vector{cols, rows} : std::vector{rows, cols};
    tensors.push_back({name + ".weight", shape, transposed, TensorSpec::Rows{&to, part.first_row}});
  }
  if (bias) tensors.push_back({name + ".bias", {rows}, false, TensorSpec::Bias{&to, part.first_row}});
}

void TensorTable::norm(const std::string& name, kernels::LayerNorm& to, size_t size, double eps) {
  to.eps = float(eps);
  vector(name + ".weight", to.gamma, size);
  vector(name + ".bias", to.beta, size);
}

Block allocate(const std::vector<TensorSpec>& tensors, bool tables) {
  size_t used = 0;
  std::byte* base = nullptr;
  const auto place = [&](auto*& pointer, size_t bytes) {
    if (base) pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base + used);
    used += round_up(bytes, kAlignment);
  };
  const auto walk = [&] {
    used = 0;
    for (const TensorSpec& t : tensors)
      if (auto* plain = std::get_if<float**>(&t.to)) {
        place(**plain, t.elements() * sizeof(float));
      } else if (auto* rows = std::get_if<TensorSpec::Rows>(&t.to); rows && rows->first_row == 0) {
        kernels::Linear& l = *rows->linear;
        place(l.packed, l.packed_bytes());
        place(l.bias, kernels::panels_for(l.outputs) * kernels::kPanel * sizeof(float));
      } else if (auto* table = std::get_if<io::TensorInfo*>(&t.to); table && tables) {
        float* numbers = nullptr;
        place(numbers, t.elements() * sizeof(float));
        const auto* data = reinterpret_cast<const std::byte*>(numbers);
        **table = {.name = t.name,
                   .dtype = io::DType::kF32,
                   .shape = t.shape,
                   .data = {data, t.elements() * sizeof(float)}};
      }
  };
  walk();
  Block memory(used);
  base = memory.data();
  walk();
  return memory;
}

namespace {

// Rows first.. of a tensor as the model sees it, `read` in the file's order.
void read_rows(const TensorSpec& t, size_t first, size_t rows, const ReadTensor& read,
               std::vector<float>& scratch, std::vector<float>& out) {
  out.resize(rows * t.cols());
  if (!t.transposed) return read(t, first * t.cols(), out);
  scratch.resize(rows);  // a piece of each of the file's rows
  for (size_t k = 0; k < t.cols(); ++k) {
    read(t, k * t.rows() + first, scratch);
    for (size_t r = 0; r < rows; ++r) out[r * t.cols() + k] = scratch[r];
  }
}

}  // namespace

namespace {

// Scales and what stays exact.
void set_part_of_int8(const TensorSpec& t, std::span<const float> numbers) {
  const auto bad = [&](const char* what) {
    throw Error(fmt::format("tensor {}: {}", t.name, what), "a model that `quantize` wrote");
  };
  if (auto* scales = std::get_if<TensorSpec::Scales>(&t.to)) {
    const kernels::Int8Layer layer(*scales->linear);
    for (size_t r = 0; r < numbers.size(); ++r) {
      if (!(numbers[r] >= 0 && std::isfinite(numbers[r]))) bad("a scale is negative, or not finite");
      layer.scale(scales->first_row + r) = numbers[r];
    }
  } else if (auto* rows = std::get_if<TensorSpec::ExactRows>(&t.to)) {
    const kernels::Int8Layer layer(*rows->linear);
    for (size_t i = 0; i < numbers.size(); ++i)
      layer.exact_weight(rows->first_row + i / layer.exact, i % layer.exact) = numbers[i];
  } else {
    const kernels::Int8Layer layer(*std::get<TensorSpec::ExactColumns>(t.to).linear);
    for (size_t e = 0; e < numbers.size(); ++e) {
      if (!(numbers[e] >= 0 && numbers[e] < float(layer.layer.inputs)) ||
          (e > 0 && numbers[e] <= numbers[e - 1]))
        bad("its columns are not ascending numbers of inputs");
      layer.columns()[e] = uint32_t(numbers[e]);
    }
  }
}

}  // namespace

void fill(const std::vector<TensorSpec>& tensors, const ReadTensor& read, bool tables) {
  struct Piece {
    const TensorSpec* tensor;
    size_t first_row, rows;
  };
  std::vector<Piece> pieces;
  for (const TensorSpec& t : tensors) {
    const bool table = std::holds_alternative<io::TensorInfo*>(t.to);
    if (table && !tables) continue;
    const size_t step = table || std::holds_alternative<TensorSpec::Rows>(t.to) ? kernels::kPanel : t.rows();
    for (size_t r = 0; r < t.rows(); r += step) pieces.push_back({&t, r, std::min(step, t.rows() - r)});
  }
  Team team(std::min(available_threads(), 8));
  std::vector<std::vector<float>> scratch(size_t(team.threads())), rows_of(scratch.size());
  std::mutex mutex;
  std::exception_ptr error;
  team.parallel_for(pieces.size(), [&](size_t i, size_t worker) {
    const Piece& piece = pieces[i];
    const TensorSpec& t = *piece.tensor;
    const size_t first = piece.first_row, count = piece.rows;
    try {
      const auto numbers = [&](float* all) { return std::span(all + first * t.cols(), count * t.cols()); };
      if (auto* plain = std::get_if<float**>(&t.to)) {
        read(t, first * t.cols(), numbers(**plain));
      } else if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) {
        read(t, first * t.cols(), numbers(table_numbers(**table)));
      } else if (auto* bias = std::get_if<TensorSpec::Bias>(&t.to)) {
        read(t, 0, std::span(bias->linear->bias + bias->first_row, t.cols()));
      } else if (!std::holds_alternative<TensorSpec::Rows>(t.to)) {
        rows_of[worker].resize(t.elements());
        read(t, 0, rows_of[worker]);
        set_part_of_int8(t, rows_of[worker]);
      } else {
        const auto& rows = std::get<TensorSpec::Rows>(t.to);
        std::vector<float>& matrix = rows_of[worker];
        read_rows(t, first, count, read, scratch[worker], matrix);
        for (size_t r = 0; rows.linear->is_int8() && r < count; ++r)
          if (!kernels::are_int8_weights(std::span(matrix).subspan(r * t.cols(), t.cols())))
            throw Error(fmt::format("tensor {}: the integers of row {} may overflow", t.name, first + r),
                        "a model that `quantize` wrote");
        kernels::pack_rows({matrix.data(), count, t.cols()}, rows.first_row + first, *rows.linear);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

void read_back(const TensorSpec& t, size_t first, std::span<float> out) {
  if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) {
    return io::as_stored(**table, first, out);
  }
  if (auto* plain = std::get_if<float**>(&t.to))
    return (void)std::copy_n(**plain + first, out.size(), out.data());
  if (auto* bias = std::get_if<TensorSpec::Bias>(&t.to))
    return (void)std::copy_n(bias->linear->bias + bias->first_row + first, out.size(), out.data());
  if (auto* scales = std::get_if<TensorSpec::Scales>(&t.to)) {
    const kernels::Int8Layer layer(*scales->linear);
    for (size_t i = 0; i < out.size(); ++i) out[i] = layer.scale(scales->first_row + first + i);
    return;
  }
  if (auto* exact = std::get_if<TensorSpec::ExactRows>(&t.to)) {
    const kernels::Int8Layer layer(*exact->linear);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = layer.exact_weight(exact->first_row + (first + i) / layer.exact, (first + i) % layer.exact);
    return;
  }
  if (auto* columns = std::get_if<TensorSpec::ExactColumns>(&t.to)) {
    const kernels::Int8Layer layer(*columns->linear);
    for (size_t i = 0; i < out.size(); ++i) out[i] = float(layer.columns()[first + i]);
    return;
  }
  const auto& rows = std::get<TensorSpec::Rows>(t.to);
  const kernels::Linear& l = *rows.linear;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = (first + i) / t.shape[1], col = (first + i) % t.shape[1];
    out[i] = kernels::weight_at(l, rows.first_row + (t.transposed ? col : row), t.transposed ? row : col);
  }
}

namespace {

bool is_float(io::DType type) {
  return type == io::DType::kF32 || type == io::DType::kF16 || type == io::DType::kBF16;
}

}  // namespace

Checkpoint::Checkpoint(const io::SafeTensors& files, std::string where, std::string_view prefix,
                       std::string_view anchor)
    : files_(files), where_(std::move(where)), prefix_(prefix), file_prefix_(prefix) {
  for (const io::TensorInfo& t : files.tensors())
    if (t.name.ends_with(anchor)) {
      file_prefix_ = t.name.substr(0, t.name.size() - anchor.size());
      break;
    }
  outer_ = file_prefix_.ends_with(prefix_) ? file_prefix_.substr(0, file_prefix_.size() - prefix_.size())
                                           : file_prefix_;
}

std::string Checkpoint::in_file(const std::string& name) const {
  return name.starts_with(prefix_) ? file_prefix_ + name.substr(prefix_.size()) : outer_ + name;
}

const io::TensorInfo* Checkpoint::find(const std::string& name) const {
  const std::string full = in_file(name);
  if (const auto* found = files_.find(full)) return found;
  // TensorFlow's names for LayerNorm, which early PyTorch checkpoints kept.
  for (const auto& [today, old] : {std::pair("LayerNorm.weight", "gamma"), {"LayerNorm.bias", "beta"}})
    if (full.ends_with(today)) {
      const size_t stem =
          full.size() - std::string_view(today).size() + std::string_view("LayerNorm.").size();
      return files_.find(full.substr(0, stem) + old);
    }
  return nullptr;
}

const io::TensorInfo& Checkpoint::get(const TensorSpec& spec) {
  const io::TensorInfo* found = find(spec.name);
  if (!found) {
    std::vector<std::string_view> names;
    for (const io::TensorInfo& t : files_.tensors())
      if (!used_.contains(t.name)) names.push_back(t.name);
    const std::string wanted = in_file(spec.name);
    const std::string_view meant = nearest(wanted, names);
    throw Error(fmt::format("{}: tensor {} is missing", where_, wanted),
                meant.empty() ? "config.json and the weights may belong to different models, or the file is "
                                "incomplete"
                              : fmt::format("the file has {}, which may be meant", io::quote(meant)));
  }
  const bool flat = spec.shape.size() == 1 && found->shape == std::vector<size_t>{1, spec.shape[0]};
  if (found->shape != spec.shape && !flat)
    throw Error(fmt::format("{}: tensor {} has shape [{}] but config.json asks for [{}]", where_, found->name,
                            fmt::join(found->shape, ", "), fmt::join(spec.shape, ", ")),
                "config.json and the weights belong to different models");
  if (spec.stored && found->dtype != *spec.stored)
    throw Error(fmt::format("{}: tensor {} is {}, and in a quantized model {}", where_, found->name,
                            io::name_of(found->dtype), io::name_of(*spec.stored)),
                "a model that `quantize` wrote");
  if (!spec.stored && !is_float(found->dtype))
    throw Error(
        fmt::format("{}: tensor {} is {}; weights must be F32, F16 or BF16", where_, found->name,
                    io::name_of(found->dtype)),
        found->dtype == io::DType::kI8 ? "the model that was quantized: only that one can learn" : "");
  used_.insert(found->name);
  return *found;
}

void Checkpoint::know(const std::string& name) {
  if (const io::TensorInfo* found = find(name)) used_.insert(found->name);
}

void Checkpoint::report_others(const std::vector<TensorSpec>& tensors, const WeightsOptions& options) const {
  std::vector<std::string> others;
  for (const io::TensorInfo& t : files_.tensors())
    if (!used_.contains(t.name) && !is_buffer(t.name)) others.push_back(t.name);
  if (others.empty()) return;
  if (options.strict) {
    std::vector<std::string_view> known;
    for (const TensorSpec& spec : tensors) known.push_back(spec.name);
    const std::string_view meant = nearest(others[0], known);
    throw Error(
        fmt::format("{}: tensor {} belongs to nothing that the model has", where_, io::quote(others[0])),
        fmt::format("{}load without `strict`, or `convert` the checkpoint with `drop_unknown`",
                    meant.empty() ? "" : fmt::format("the nearest that it has is {}; ", io::quote(meant))));
  }
  if (!options.warning) return;
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(others.size(), kNamed); ++i)
    names += (i > 0 ? ", " : "") + io::quote(others[i]);
  if (others.size() > kNamed) names += fmt::format(" and {} more", others.size() - kNamed);
  options.warning(fmt::format("{}: {} that the model has no use for, and does not read: {}", where_,
                              others.size() == 1 ? "a tensor" : fmt::format("{} tensors", others.size()),
                              names));
}

namespace {

// The rows of a mapped table of integers, and its scales, as those of a layer are checked when they are
// packed.
void check_table(const io::TensorInfo& table) {
  const size_t cols = table.shape.size() == 2 ? table.shape[1] : 1;
  std::vector<float> numbers(cols);
  for (size_t i = 0; i < table.elements(); i += cols) {
    io::as_stored(table, i, numbers);
    const bool good = table.dtype == io::DType::kI8
                          ? cols <= kernels::kMostInt8Inputs && kernels::are_int8_weights(numbers)
                          : numbers[0] >= 0 && std::isfinite(numbers[0]);
    if (!good)
      throw Error(fmt::format("tensor {}: row {} is not what `quantize` makes", table.name, i / cols),
                  "a model that `quantize` wrote");
  }
}

}  // namespace

Block load_tensors(const std::vector<TensorSpec>& tensors, const Checkpoint& checkpoint) {
  Block memory = allocate(tensors);
  for (const TensorSpec& t : tensors)
    if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) {
      **table = *checkpoint.find(t.name);
      if (t.stored) check_table(**table);
    }
  fill(tensors, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    io::as_stored(*checkpoint.find(t.name), first, out);
  });
  return memory;
}

Block random_tensors(const std::vector<TensorSpec>& tensors, uint64_t seed, std::vector<Block>& tables) {
  Block memory = allocate(tensors);
  Team team(available_threads());
  for (const TensorSpec& t : tensors)
    if (auto* table = std::get_if<io::TensorInfo*>(&t.to)) {
      Block block(t.elements() * sizeof(float));
      const size_t step = 1024 * t.cols(), chunks = (t.elements() + step - 1) / step;
      team.parallel_for(chunks, [&](size_t chunk) {
        const size_t first = chunk * step;
        random_elements(seed, t.name, first,
                        {block.as<float>() + first, std::min(step, t.elements() - first)});
      });
      **table = {.name = t.name,
                 .dtype = io::DType::kF32,
                 .shape = t.shape,
                 .data = {block.data(), t.elements() * sizeof(float)}};
      tables.push_back(std::move(block));
    }
  fill(tensors, [&](const TensorSpec& t, size_t first, std::span<float> out) {
    if (t.initial)
      std::fill(out.begin(), out.end(), *t.initial);
    else if (t.shape.size() == 1 && t.name.ends_with(".weight"))
      std::fill(out.begin(), out.end(), 1.0f);
    else
      random_elements(seed, t.name, first, out);
  });
  return memory;
}

void save_checkpoint(const std::filesystem::path& directory, Precision precision,
                     const std::vector<TensorSpec>& tensors, std::string_view without,
                     const std::string& config_json) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(fmt::format("cannot make the folder {}: {}", directory.string(), error.message()));
  std::vector<io::TensorSource> sources;
  for (const TensorSpec& t : tensors)
    sources.push_back({t.name.starts_with(without) ? t.name.substr(without.size()) : t.name, t.shape,
                       [&t](size_t first, std::span<float> out) { read_back(t, first, out); }, t.stored});
  constexpr io::DType kTypes[] = {io::DType::kF32, io::DType::kF16, io::DType::kBF16};
  io::write_safetensors(directory / io::kWeightsFile, kTypes[size_t(precision)], sources);
  io::AtomicFile file(directory / io::kConfigFile);
  file.write(config_json);
  file.commit();
}

size_t count_elements(const std::vector<TensorSpec>& tensors) {
  size_t count = 0;
  for (const TensorSpec& t : tensors)
    if (!t.stored || *t.stored == io::DType::kI8)
      count += t.elements();  // scales and the like are not learned
  return count;
}

namespace {

// Rows of a table of I8 for a Linear: their integers, but for the first columns, which stay exact. Which
// inputs of a language model's last product are large is not measured.
void read_integers(const kernels::Linear& linear, const io::TensorInfo& table, size_t first,
                   std::span<float> numbers) {
  const kernels::Int8Layer layer(linear);
  const size_t cols = linear.inputs;
  io::as_stored(table, first * cols, numbers);
  for (size_t r = 0; r < numbers.size() / cols; ++r) {
    float scale;
    std::memcpy(&scale, table.row_scales.data() + (first + r) * sizeof scale, sizeof scale);
    layer.scale(first + r) = scale;
    for (size_t e = 0; e < layer.exact; ++e)
      layer.exact_weight(first + r, e) = std::exchange(numbers[r * cols + e], 0.0f) * scale;
  }
  for (size_t e = 0; first == 0 && e < layer.exact; ++e) layer.columns()[e] = uint32_t(e);
}

}  // namespace

const kernels::Linear& PackedTable::linear(const io::TensorInfo& table, const float* bias) const {
  kernels::Linear& linear = packed_->linear;
  Block& memory = packed_->memory;
  std::call_once(packed_->once, [&] {
    const size_t rows = table.shape[0], cols = table.shape[1];
    linear = {.inputs = cols, .outputs = rows, .format = format_};
    if (table.dtype != io::DType::kI8 && linear.is_int8()) linear.format = WeightFormat::kFloat32;
    const size_t packed = round_up(linear.packed_bytes(), kAlignment);
    memory = Block(packed + kernels::panels_for(rows) * kernels::kPanel * sizeof(float));
    linear.packed = memory.data();
    linear.bias = reinterpret_cast<float*>(memory.data() + packed);
    if (bias) std::copy_n(bias, rows, linear.bias);
    Team team(std::min(available_threads(), 8));
    std::vector<std::vector<float>> scratch(size_t(team.threads()),
                                            std::vector<float>(kernels::kPanel * cols));
    team.parallel_for(kernels::panels_for(rows), [&](size_t panel, size_t worker) {
      const size_t first = panel * kernels::kPanel, count = std::min(kernels::kPanel, rows - first);
      const std::span<float> numbers = std::span(scratch[worker]).first(count * cols);
      if (linear.is_int8())
        read_integers(linear, table, first, numbers);
      else
        io::to_float(table, first * cols, numbers);
      kernels::pack_rows({numbers.data(), count, cols}, first, linear);
    });
  });
  return linear;
}

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001B3;
  return hash;
}

void random_elements(uint64_t seed, const std::string& name, size_t first, std::span<float> out) {
  Random random(seed,
                name_hash(fmt::format("{}@{}", name, first)));  // a stream for every tensor and place in it
  for (float& x : out) x = (random.uniform() - 0.5f) * 0.0692820323f;
}

}  // namespace bertie
