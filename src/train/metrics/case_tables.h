#pragma once
// What Python's str.lower() looks at to find out whether a capital sigma ends a word.
#include <cstdint>

namespace bertie::metrics {

bool has_case(uint32_t point);           // capital, small or title case
bool is_case_ignorable(uint32_t point);  // without case, and looked through: marks, apostrophes …

}  // namespace bertie::metrics
