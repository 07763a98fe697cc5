#pragma once
// --precision, of the commands that train.
#include "cli/options.h"

namespace bertie::cli {

Option precision_option();
bool wants_bf16(const Settings& settings);

}  // namespace bertie::cli
