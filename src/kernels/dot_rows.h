#pragma once
// Many stored vectors times one:  scores[i] = Σ_c rows[i, c]·q[c]
//
// Rows are float16, or int8 with a scale each: rows[i, c] = scale[i]·int8[i, c]. They are widened in
// registers and summed in fp32, each row by itself, so that a score does not depend on the others. What it
// costs is reading them.
#include <cstddef>
#include <cstdint>
#include <span>

namespace bertie::kernels {

// `rows` has scores.size() rows of q.size() numbers each, one after the other.
void dot_rows_f16(const uint16_t* rows, std::span<const float> q, std::span<float> scores);
void dot_rows_i8(const int8_t* rows, const float* scales, std::span<const float> q, std::span<float> scores);

}  // namespace bertie::kernels
