#pragma once
// What linear models learn from: a row of numbers for each example.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bertie::baseline {

struct FeatureRows {
  size_t rows = 0, columns = 0;
  // Row r's numbers are values[begins[r]] .. values[begins[r + 1] − 1], in columns `places`; all others are
  // 0. `begins` empty: every number is there, row after row.
  std::vector<float> values = {};
  std::vector<size_t> begins = {};
  std::vector<uint32_t> places = {};

  bool dense() const { return begins.empty(); }
  // Calls visit(column, value) for the numbers of a row that are there, in the order of columns.
  template <class Visit>
  void for_each(size_t row, const Visit& visit) const {
    if (dense()) {
      const float* numbers = values.data() + row * columns;
      for (size_t c = 0; c < columns; ++c) visit(c, numbers[c]);
    } else {
      for (size_t i = begins[row]; i < begins[row + 1]; ++i) visit(size_t(places[i]), values[i]);
    }
  }
};

}  // namespace bertie::baseline
