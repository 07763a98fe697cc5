#pragma once
// The library names its options as its headers do, in backticks (bertie/error.h); the command line has flags.
#include <string>
#include <string_view>

namespace bertie::cli {

// The text with flags instead of fields: "`max_length` 40" becomes "--max-length 40".
std::string with_flags(std::string_view text);

}  // namespace bertie::cli
