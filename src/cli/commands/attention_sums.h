#pragma once
// What `bertie attend` shows besides weights: rollout, and gradient × attention.
#include <string>

#include "bertie/text_model.h"
#include "cli/options.h"

namespace bertie::cli {

// Whether one of them is asked for; UsageError where options do not go together.
bool wants_attention_sums(const Settings& settings);
int show_attention_sums(const Settings& settings, const TextModel& model, const std::string& text);

}  // namespace bertie::cli
