#pragma once
#include <cstddef>
#include <span>
#include <type_traits>

namespace bertie {

// A matrix somebody else owns: rows of `cols` numbers, `stride` numbers apart. Copy it freely; it is
// valid as long as what it looks at.
template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(T* data, size_t rows, size_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(T* data, size_t rows, size_t cols, size_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {}
  operator Matrix<const T>() const requires(!std::is_const_v<T>) { return {data_, rows_, cols_, stride_}; }

  T* data() const { return data_; }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  size_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0 || cols_ == 0; }

  T* row(size_t r) const { return data_ + r * stride_; }
  std::span<T> operator[](size_t r) const { return {row(r), cols_}; }
  T& operator()(size_t r, size_t c) const { return row(r)[c]; }

  Matrix slice_rows(size_t first, size_t count) const { return {row(first), count, cols_, stride_}; }
  Matrix slice_cols(size_t first, size_t count) const { return {data_ + first, rows_, count, stride_}; }

 private:
  T* data_ = nullptr;
  size_t rows_ = 0, cols_ = 0, stride_ = 0;
};

}  // namespace bertie
