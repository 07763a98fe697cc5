#pragma once
#include <string>

#include "bertie/encoder.h"

namespace bertie::cli {

// The weights of one layer (from 0), or their mean over its heads.
std::vector<float> mean_over_heads(const Attention& attention, size_t layer);
// The tokens as a terminal may have them.
std::vector<std::string> printable_tokens(const Attention& attention);

}  // namespace bertie::cli
