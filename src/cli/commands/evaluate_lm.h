#pragma once
#include "cli/options.h"

namespace bertie::cli {

// `bertie evaluate lm`: how well a language model knows held-out text.
int evaluate_lm(const Settings& settings);

}  // namespace bertie::cli
