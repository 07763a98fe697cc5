#pragma once
// Self-attention's steps for people: each one's formula, its matrix, and one number of it worked out.
#include <string>

#include "bertie/explain.h"
#include "bertie/json.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

struct StepsView {
  size_t query = 0;    // the token whose numbers are worked out
  bool brief = false;  // one head, matrices alone
};

std::string steps_text(const AttentionSteps& steps, const StepsView& view, const Style& style, size_t width);

// All numbers, all digits, as one JSON object.
void print_json(const AttentionSteps& steps, const JsonInput& input);

}  // namespace bertie::cli
