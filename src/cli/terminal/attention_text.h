#pragma once
// Attention weights for people, as `attend`, `explain` and `demo` show them.
#include <span>
#include <string>
#include <vector>

#include "bertie/results.h"

namespace bertie::cli {

// The mean of a layer's weights (from 0) over its heads.
std::vector<float> mean_over_heads(const Attention& attention, size_t layer);
// Tokens as a terminal may have them.
std::vector<std::string> printable_all(std::span<const std::string> texts);
// "bank" occurs twice: then it is bank(2) and bank(10), by its place.
std::vector<std::string> unique_labels(const std::vector<std::string>& tokens);

}  // namespace bertie::cli
