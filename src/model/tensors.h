#pragma once
// The table of a model's tensors, and what walks it: finding room, loading, random numbers, saving, counting.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "bertie/model.h"
#include "core/arena.h"
#include "io/safetensors.h"
#include "kernels/gemm.h"

namespace bertie {

// One tensor of a checkpoint: its name, its shape there, and where it goes. `to` points to members of the
// weights that the table was made for.
struct TensorSpec {
  struct Rows {  // rows first_row.. of a packed matrix, of which this tensor may be a part
    kernels::Linear* linear;
    size_t first_row;
  };
  struct Bias {  // likewise of its bias
    kernels::Linear* linear;
    size_t first_row;
  };
  // Parts of a Linear of kInt8 (kernels/int8.h), whose Rows are whole numbers.
  struct Scales {  // from first_row on
    kernels::Linear* linear;
    size_t first_row;
  };
  struct ExactRows {  // the weights of its exact columns, (rows, columns)
    kernels::Linear* linear;
    size_t first_row;
  };
  struct ExactColumns {  // and which these are
    kernels::Linear* linear;
  };
  std::string name;           // as transformers saves it
  std::vector<size_t> shape;  // of the file
  bool transposed = false;    // the file has (inputs, outputs)
  // Mapped table, plain numbers, part of a Linear.
  std::variant<io::TensorInfo*, float**, Rows, Bias, Scales, ExactRows, ExactColumns> to;
  std::optional<float> initial = {};     // of fresh parameters; else what its shape and name say
  std::optional<io::DType> stored = {};  // how a file has it, where that is not one of the floats

  size_t elements() const { return shape.size() == 1 ? shape[0] : shape[0] * shape[1]; }
  size_t rows() const { return shape.size() == 1 ? 1 : shape[transposed]; }  // as the model sees it
  size_t cols() const { return shape.size() == 1 ? shape[0] : shape[!transposed]; }
};

// Collects specs under names. Rows and biases of a Linear say how large it is.
class TensorTable {
 public:
  std::vector<TensorSpec> tensors;
  WeightFormat format = WeightFormat::kFloat32;  // of linear layers that come now

  void mapped(const std::string& name, io::TensorInfo& to, size_t rows, size_t cols);
  // The same of whole numbers with a scale for each row, `name`_scale.
  void mapped(const std::string& name, io::TensorInfo& to, io::TensorInfo& scales, size_t rows, size_t cols);
  void matrix(const std::string& name, float*& to, size_t rows, size_t cols);
  void vector(const std::string& name, float*& to, size_t size);
  // `name`.weight and `name`.bias: rows first_row.. of `to`, which has `outputs` in all.
  struct Part {
    size_t first_row, outputs;
  };
  void linear(const std::string& name, kernels::Linear& to, size_t rows, size_t cols, bool transposed = false,
              bool bias = true, Part part = {0, 0});
  void norm(const std::string& name, kernels::LayerNorm& to, size_t size, double eps);
};

// Room for everything but mapped tables in one block, zeroed; sets the pointers. With `tables` room for them
// too, in which case they are plain numbers that may be written.
Block allocate(const std::vector<TensorSpec>& tensors, bool tables = false);

// Fills what allocate made room for: `read(tensor, first, out)` gives elements in the file's order, and is
// called from several threads.
using ReadTensor = std::function<void(const TensorSpec&, size_t first, std::span<float> out)>;
void fill(const std::vector<TensorSpec>& tensors, const ReadTensor& read, bool tables = false);

// A table that allocate made room for.
inline float* table_numbers(const io::TensorInfo& table) {
  return reinterpret_cast<float*>(const_cast<std::byte*>(table.data.data()));
}

// The way back: elements first.. of a tensor in the file's order.
void read_back(const TensorSpec& tensor, size_t first, std::span<float> out);

// Finds a model's tensors in checkpoint files, also under older names. Keeps account of what was found, so
// that tensors the model has no use for can be named.
class Checkpoint {
 public:
  // `anchor` is a tensor that the model has under any prefix, `prefix` the one that transformers gives to
  // all but the heads' tensors.
  Checkpoint(const io::SafeTensors& files, std::string where, std::string_view prefix,
             std::string_view anchor);

  // Null where there is none. Names are those of TensorSpec.
  const io::TensorInfo* find(const std::string& name) const;
  // Throws Error naming the tensor and the file if it is not there, or of another shape or type.
  const io::TensorInfo& get(const TensorSpec& spec);
  // Marks a tensor as known though it is not read: a copy of a tied one.
  void know(const std::string& name);
  // Tensors that were neither got nor marked as known: an Error that names the first of them, or a warning
  // with them all, as `options` say.
  void report_others(const std::vector<TensorSpec>& tensors, const WeightsOptions& options) const;

 private:
  std::string in_file(const std::string& name) const;
  const io::SafeTensors& files_;
  std::string where_, prefix_, file_prefix_, outer_;
  std::set<std::string, std::less<>> used_;
};

// Errors in names, shapes and types were found by get(): allocates and fills, mapped tables too, which live
// as long as the files. Error where integers are not such as `quantize` makes.
Block load_tensors(const std::vector<TensorSpec>& tensors, const Checkpoint& checkpoint);
// Random weights, the same for the same seed: uniform with BERT's standard deviation of 0.02, biases too;
// LayerNorm's gamma is 1. What is mapped in a model from files goes into `tables`.
Block random_tensors(const std::vector<TensorSpec>& tensors, uint64_t seed, std::vector<Block>& tables);
// Writes model.safetensors and config.json into a directory that is made if need be. `without` is left away
// where names begin with it.
void save_checkpoint(const std::filesystem::path& directory, Precision precision,
                     const std::vector<TensorSpec>& tensors, std::string_view without,
                     const std::string& config_json);
size_t count_elements(const std::vector<TensorSpec>& tensors);

// A mapped table as a linear layer, packed when it is first asked for: a language model's last product, for
// which it is often the word embeddings.
class PackedTable {
 public:
  void set_format(WeightFormat format) { format_ = format; }
  // bias: one for each row, or null. Always the same table and bias for one PackedTable.
  const kernels::Linear& linear(const io::TensorInfo& table, const float* bias) const;
  // The table has learned: it is packed again when it is next asked for. Not beside other calls.
  void forget() const { packed_ = std::make_unique<Packed>(); }

 private:
  struct Packed {
    std::once_flag once;
    kernels::Linear linear;
    Block memory;
  };
  WeightFormat format_ = WeightFormat::kFloat32;
  mutable std::unique_ptr<Packed> packed_ = std::make_unique<Packed>();
};

// FNV-1a: a number for a name, the same everywhere.
uint64_t name_hash(std::string_view name);

// A stream of uniform numbers with standard deviation 0.02 for a tensor's elements from `first` on, the same
// everywhere.
void random_elements(uint64_t seed, const std::string& name, size_t first, std::span<float> out);

}  // namespace bertie
