#include "io/npy.h"

#include <fmt/format.h>

#include <bit>

#include "bertie/error.h"

namespace bertie::io {

static_assert(std::endian::native == std::endian::little, "the header says '<f4'");

std::string npy_header(std::span<const size_t> shape, std::string_view type) {
  constexpr size_t kFirstDimension = 21;  // columns that numpy keeps for it
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  if (!shape.empty()) text.append(kFirstDimension - fmt::formatted_size("{}", shape[0]), ' ');
  constexpr size_t kPrefix = 10, kMultiple = 64;  // the prefix is magic, version and length
  text.append(kMultiple - (kPrefix + text.size() + 1) % kMultiple, ' ');
  text += '\n';
  if (text.size() > 0xFFFF) throw Error(fmt::format(".npy: {} dimensions are too many", shape.size()));
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace bertie::io
