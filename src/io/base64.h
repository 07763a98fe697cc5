#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace bertie::io {

std::string base64(std::span<const std::byte> bytes);  // with = at its end

}  // namespace bertie::io
