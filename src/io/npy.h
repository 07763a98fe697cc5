#pragma once
// NumPy's .npy files (format 1.0): float32, C order, byte for byte what numpy.save writes.
//
// The header's length does not depend on the first dimension, so a program that does not know the number of
// rows yet writes a header for 0 rows, then rows, and in the end the right header over the first one.
#include <span>
#include <string>
#include <string_view>

namespace bertie::io {

// `type` is NumPy's word for the numbers: "<f4" is float32.
std::string npy_header(std::span<const size_t> shape, std::string_view type = "<f4");

}  // namespace bertie::io
