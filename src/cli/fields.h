#pragma once
// The library names its options and functions as its headers do, in backticks (bertie/error.h); the command
// line has flags and commands.
#include <string>
#include <string_view>

#include "cli/options.h"

namespace bertie::cli {

// "`max_length` 40" becomes "--max-length 40", and "`pull` NAME" becomes "bertie pull NAME".
std::string with_flags(std::string_view text);

// The option of a command that sets this field, or null.
const Option* option_of(std::string_view field, const Command& command);

}  // namespace bertie::cli
