#pragma once
#include <string>
#include <string_view>

namespace bertie::io {

// Text from a file as an error message may show it: in quotes, control characters and backticks escaped, cut
// at 80 bytes.
std::string quote(std::string_view text);

}  // namespace bertie::io
