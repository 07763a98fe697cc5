#include "train/metrics/squad.h"

#include <algorithm>

#include "train/metrics/squad_text.h"

namespace bertie::metrics {
namespace {

using Words = std::vector<std::string>;

// Words that both have, each as often as both have it.
size_t common_words(Words a, Words b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  Words both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both.size();
}

double answer_f1(const Words& right, const Words& given, SquadVersion version) {
  if (version == SquadVersion::k2 && (right.empty() || given.empty())) return right == given ? 1 : 0;
  const size_t common = common_words(right, given);
  if (common == 0) return 0;
  const double precision = double(common) / double(given.size()),
               recall = double(common) / double(right.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

AnswerScore score_answer(std::string_view text, const SquadQuestion& question, SquadVersion version) {
  const Words given = answer_words(text);
  AnswerScore best;
  bool any = false;
  const auto see = [&](const Words& right) {
    any = true;
    best.exact = std::max(best.exact, right == given ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, answer_f1(right, given, version));
  };
  for (const SquadQuestion::Answer& answer : question.answers)
    if (const Words right = answer_words(answer.text); version == SquadVersion::k1 || !right.empty())
      see(right);
  if (!any && version == SquadVersion::k2) see({});
  return best;
}

BestThreshold best_threshold(std::span<const ThresholdRow> rows, std::span<const size_t> order,
                             std::span<const uint32_t> weights) {
  double count = 0, score = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    count += weights[i];
    if (!rows[i].has_answer) score += weights[i];
  }
  double highest = score;
  BestThreshold best;
  for (const size_t i : order) {
    const ThresholdRow& row = rows[i];
    score += weights[i] * (row.has_answer ? row.score : row.answered ? -1.0 : 0.0);
    if (score > highest) highest = score, best.threshold = row.null_odds;
  }
  best.score = count == 0 ? 0 : highest / count;
  return best;
}

}  // namespace bertie::metrics
