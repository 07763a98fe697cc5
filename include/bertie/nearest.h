#pragma once
// "Did you mean …": the known word that was probably meant.
#include <string_view>
#include <vector>

#include "bertie/export.h"

namespace bertie {

// The nearest of `known` by edits, or nothing where none is near enough to be a slip.
BERTIE_API std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace bertie
