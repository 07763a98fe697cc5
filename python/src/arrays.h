#pragma once
// Numbers that go to Python as NumPy arrays without a copy: a capsule owns the memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bertie/view.h"

namespace bertie::python {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;

// What Python gives as numbers: NumPy's arrays, torch's tensors on the CPU, and all else that speaks DLPack
// or the buffer protocol. Rows without gaps; other types and layouts are copied on the way.
template <class T, size_t Dimensions>
using Numbers = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

// Memory that is not set to anything, for results that are written whole.
template <class T>
class Memory {
 public:
  explicit Memory(size_t size) : numbers_(new T[size]) {}
  T* data() const { return numbers_.get(); }

  Array<T> release(std::span<const size_t> shape) {
    nb::capsule owner(numbers_.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return {numbers_.release(), shape.size(), shape.data(), owner};
  }
  Array<T> release(std::initializer_list<size_t> shape) { return release({shape.begin(), shape.size()}); }

 private:
  std::unique_ptr<T[]> numbers_;
};

// A vector's own memory.
template <class T>
Array<T> array_of(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  T* data = held->data();
  nb::capsule owner(held.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  held.release();
  return {data, shape, owner};
}

template <class T>
Array<T> array_of(std::vector<T> values) {
  const size_t size = values.size();
  return array_of(std::move(values), {size});
}

// Numbers inside of an object that Python has: the object lives as long as the array.
template <class T>
nb::ndarray<nb::numpy, const T> view_of(nb::handle owner, const T* data,
                                        std::initializer_list<size_t> shape) {
  return {data, shape, owner};
}

inline Matrix<const float> matrix_of(const Numbers<float, 2>& numbers) {
  return {numbers.data(), numbers.shape(0), numbers.shape(1)};
}

}  // namespace bertie::python
