#pragma once
#include <string>

#include "bertie/evaluate.h"
#include "cli/options.h"

namespace bertie::cli {

// `bertie evaluate --each-head`: the main score with each head switched off in turn.
int evaluate_each_head(const Settings& settings, const TextModel& model, const std::string& name,
                       const Dataset& data, const PredictOptions& predicting, ScoreOptions scoring);

}  // namespace bertie::cli
