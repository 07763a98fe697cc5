#pragma once
// "Did you mean ...?": the known word that was probably meant by one that is not known.
#include <string_view>
#include <vector>

namespace bertie {

// One of `known`, or nothing where none is near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace bertie
