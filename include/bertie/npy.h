#pragma once
// Rows of numbers into a file for NumPy (.npy, float32), as they come: how many there are is written at the
// end.
//
//   bertie::NpyWriter file("vectors.npy", {model.dimension()});
//   for (…) file.add(vector);
//   file.commit();
//
// Until commit() the rows are in a temporary file beside `path`; a file that had the name before is whole
// until then, and stays if there is no commit(). Throws Error.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bertie/export.h"

namespace bertie {

class BERTIE_API NpyWriter {
 public:
  // `row` is the shape of one row: {384} makes an array (rows, 384). A link is followed.
  NpyWriter(const std::filesystem::path& path, std::vector<size_t> row);
  NpyWriter(NpyWriter&&) noexcept;
  NpyWriter& operator=(NpyWriter&&) noexcept;
  ~NpyWriter();

  void add(std::span<const float> rows);  // one, or several
  size_t rows() const;                    // so far
  void commit();
  const std::string& temporary() const;  // its path; empty after commit()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What such a file begins with: rows of that shape. It is as long for any number of them.
BERTIE_API std::string npy_header(size_t rows, std::span<const size_t> row);

}  // namespace bertie
