#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "bertie/text_model.h"
#include "cli/options.h"

namespace bertie::cli {

// The weights of one layer (from 0), or their mean over its heads.
std::vector<float> mean_over_heads(const Attention& attention, size_t layer);
// The tokens as a terminal may have them.
std::vector<std::string> printable_tokens(const Attention& attention);
// "bank" occurs twice: then it is bank(2) and bank(10), by its place.
std::vector<std::string> unique_labels(const std::vector<std::string>& tokens);
// Error where --layer or --head is beyond what "this model" (the owner) has.
void check_layer_and_head(const Settings& settings, size_t layers, size_t heads, std::string_view owner);

}  // namespace bertie::cli
