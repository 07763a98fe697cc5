#pragma once
// Vectors that were saved, with their texts: a corpus is embedded once, and searched as often as one likes.
//
//   bertie::VectorIndexWriter writer("library", {.dimension = model.dimension()});
//   writer.add(model.embed(text).values, text);
//   writer.commit();
//
//   const bertie::VectorIndex index("library");
//   auto best = index.search(model.embed("a question").values, 10);
//   index.text(best[0].index);
//
// An index is a folder:
//
// - index.json: version, count, dimension, numbers ("float16"); what made them: model, pooling, how
// - vectors.npy: (count, dimension), float16 or int8, of length 1 each
// - scales.npy: (count), float32, what a row of int8 is multiplied by; float16 has none
// - texts: UTF-8, one text after the other
// - ends.npy: (count), uint64, where each text ends
//
// index.json is written last. Until then begun.journal (bertie/journal.h) stands for it, and what is there
// can be gone on with. All of it is mapped, not read, when it is opened. Search is exact: every vector is
// compared.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/journal.h"
#include "bertie/similarity.h"

namespace bertie {

enum class VectorNumbers { kFloat16, kInt8 };

struct VectorIndexOptions {
  size_t dimension = 0;
  VectorNumbers numbers = VectorNumbers::kFloat16;
  // What made the vectors, for whoever reads a query the same way. The same where an index is gone on with.
  std::string model = {};    // its name
  std::string pooling = {};  // "mean", "cls" …
  std::string how = {};      // what else matters: a prefix, where texts are cut
  std::string work = {};  // a JSON object of what else is the same where an index is gone on with; not kept
};

// One thread at a time. Throws Error.
class BERTIE_API VectorIndexWriter {
 public:
  // An index that is there is an Error; one that was begun, too, unless it is to be gone on with.
  VectorIndexWriter(const std::filesystem::path& folder, const VectorIndexOptions& options,
                    bool resume = false);
  ~VectorIndexWriter();
  VectorIndexWriter(const VectorIndexWriter&) = delete;
  VectorIndexWriter& operator=(const VectorIndexWriter&) = delete;

  size_t size() const;       // vectors so far, those of before included
  const Mark& done() const;  // the last mark from before
  void add(std::span<const float> vector, std::string_view text);
  // What was added outlives the process. Inputs and bytes are this object's affair.
  void mark(const Mark& mark = {});
  void commit();  // the index is whole

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Constant; any number of threads may search.
class BERTIE_API VectorIndex {
 public:
  explicit VectorIndex(const std::filesystem::path& folder);  // Error where it is not whole, or not one
  ~VectorIndex();
  VectorIndex(VectorIndex&&) noexcept;
  VectorIndex& operator=(VectorIndex&&) noexcept;

  size_t size() const;
  size_t dimension() const { return options().dimension; }
  const VectorIndexOptions& options() const;
  std::string_view text(size_t i) const;

  // The `top` rows with the largest cosines, best first, equal ones in their order. threads: 0: one a core.
  std::vector<Ranked> search(std::span<const float> query, size_t top, int threads = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
