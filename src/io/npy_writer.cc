#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "bertie/error.h"
#include "bertie/npy.h"
#include "io/atomic_file.h"
#include "io/npy.h"

namespace bertie {

struct NpyWriter::State {
  State(const std::filesystem::path& path, std::vector<size_t> row) : file(path), shape(std::move(row)) {
    numbers = std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
    shape.insert(shape.begin(), 0);
    if (numbers == 0) throw Error("a row of a .npy file has numbers in it, not none");
    file.write(io::npy_header(shape));
  }
  io::AtomicFile file;
  std::vector<size_t> shape;  // shape[0] counts the rows
  size_t numbers;             // of a row
};

NpyWriter::NpyWriter(const std::filesystem::path& path, std::vector<size_t> row)
    : state_(std::make_unique<State>(path, std::move(row))) {}
NpyWriter::NpyWriter(NpyWriter&&) noexcept = default;
NpyWriter& NpyWriter::operator=(NpyWriter&&) noexcept = default;
NpyWriter::~NpyWriter() = default;

void NpyWriter::add(std::span<const float> rows) {
  if (rows.size() % state_->numbers != 0)
    throw Error(fmt::format("{} numbers are not whole rows of {}", rows.size(), state_->numbers));
  state_->file.write(std::as_bytes(rows));
  state_->shape[0] += rows.size() / state_->numbers;
}

size_t NpyWriter::rows() const { return state_->shape[0]; }

void NpyWriter::commit() {
  state_->file.write_at(0, io::npy_header(state_->shape));
  state_->file.commit();
}

const std::string& NpyWriter::temporary() const { return state_->file.temporary(); }

std::string npy_header(size_t rows, std::span<const size_t> row) {
  std::vector<size_t> shape(row.begin(), row.end());
  shape.insert(shape.begin(), rows);
  return io::npy_header(shape);
}

}  // namespace bertie
