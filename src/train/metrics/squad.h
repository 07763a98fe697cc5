#pragma once
// Answers against the right ones, as evaluate-v1.1.py and evaluate-v2.0.py of SQuAD do.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bertie/dataset.h"

namespace bertie::metrics {

enum class SquadVersion { k1, k2 };

struct AnswerScore {
  double exact = 0, f1 = 0;
};

// The best over all right answers. Version 2: a question without any is right where `text` is empty; right
// answers that are nothing but articles and punctuation do not count.
AnswerScore score_answer(std::string_view text, const SquadQuestion& question, SquadVersion version);

// A question for the search of the threshold.
struct ThresholdRow {
  double null_odds, score;  // the score of the answer that is given, not looking at the odds
  bool has_answer, answered;
};
struct BestThreshold {
  double score = 0, threshold = 0;
};
// The threshold of null_odds with the highest mean score. `order` has the rows by ascending odds; row i
// counts weights[i] times. As find_best_thresh of evaluate-v2.0.py: starts from "no answer" for all, at 0.
BestThreshold best_threshold(std::span<const ThresholdRow> rows, std::span<const size_t> order,
                             std::span<const uint32_t> weights);

}  // namespace bertie::metrics
