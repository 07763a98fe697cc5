#pragma once
// The model that --model or $BERTIE_MODEL names.
#include <string>
#include <string_view>

#include "bertie/text_model.h"
#include "cli/options.h"

namespace bertie::cli {

bool has_model(const Settings& settings);
std::string model_name(const Settings& settings);  // as it was given; UsageError where it was not
// Its folder, which may be given by its path or by a name in the cache; a UsageError that says how to give
// one where there is none, an Error where it is not there.
std::string model_directory(const Settings& settings);      // with config.json in it
std::string tokenizer_directory(const Settings& settings);  // perhaps nothing but a tokenizer

WeightFormat weight_format(const Settings& settings);  // --precision
// The model, with --threads, --max-length, --precision and --strict; with a head, only if the model has it.
TextModel load_model(const Settings& settings);
TextModel load_model(const Settings& settings, Head head);

// UsageError where --layer or --head is beyond what "this model" (the owner) has.
void check_layer_and_head(const Settings& settings, size_t layers, size_t heads, std::string_view owner);

}  // namespace bertie::cli
