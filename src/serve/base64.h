#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace bertie::serve {

std::string base64(std::span<const std::byte> bytes);  // with = at its end

}  // namespace bertie::serve
