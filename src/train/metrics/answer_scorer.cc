// Questions about a context: SQuAD 1.1, and 2.0 where some have no answer.
#include "train/metrics/correlation.h"
#include "train/metrics/scorer.h"
#include "train/metrics/squad.h"

namespace bertie::metrics {
namespace {

class AnswerScorer : public Scorer {
 public:
  AnswerScorer(const Dataset& data, const Predictions& predictions, double threshold)
      : version_(data.no_answers ? SquadVersion::k2 : SquadVersion::k1) {
    for (size_t i = 0; i < data.questions.size(); ++i) {
      const SquadQuestion& question = data.questions[i];
      const PredictedAnswer& given = predictions.answers[i];
      const AnswerScore raw = score_answer(given.text, question, version_);
      const bool has_answer = !question.answers.empty();
      const bool none = version_ == SquadVersion::k2 && given.null_odds > threshold;
      rows_.push_back(none ? AnswerScore{double(!has_answer), double(!has_answer)} : raw);
      f1_.push_back({given.null_odds, raw.f1, has_answer, !given.text.empty()});
      exact_.push_back({given.null_odds, raw.exact, has_answer, !given.text.empty()});
      odds_.push_back(given.null_odds);
    }
    order_ = ascending(odds_);
  }

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    const Means all = means(weights, {});
    std::vector<NamedScore> out{named("f1", all.f1), named("exact_match", all.exact)};
    if (version_ == SquadVersion::k1) return out;
    const Means with = means(weights, true), without = means(weights, false);
    out.push_back(named("has_answer_f1", with.f1));
    out.push_back(named("has_answer_exact_match", with.exact));
    out.push_back(named("no_answer_accuracy", without.exact));
    out.push_back(named("best_f1", best_threshold(f1_, order_, weights).score));
    out.push_back(named("best_exact_match", best_threshold(exact_, order_, weights).score));
    return out;
  }

  void describe(Evaluation& evaluation) const override {
    for (const AnswerScore& row : rows_) evaluation.row_scores.push_back(row.f1);
    if (version_ == SquadVersion::k1) return;
    const std::vector<uint32_t> once(rows_.size(), 1);
    evaluation.best_threshold = best_threshold(f1_, order_, once).threshold;
    evaluation.best_exact_threshold = best_threshold(exact_, order_, once).threshold;
  }

  std::optional<bool> right(size_t row) const override { return rows_[row].exact == 1; }

 private:
  struct Means {
    double f1 = 0, exact = 0;
  };
  // Of all questions, or of those that have an answer or have none; NaN where there are no such questions.
  Means means(std::span<const uint32_t> weights, std::optional<bool> has_answer) const {
    Means sum;
    double rows = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (has_answer && f1_[i].has_answer != *has_answer) continue;
      sum.f1 += weights[i] * rows_[i].f1, sum.exact += weights[i] * rows_[i].exact, rows += weights[i];
    }
    return {sum.f1 / rows, sum.exact / rows};
  }

  SquadVersion version_;
  std::vector<AnswerScore> rows_;         // with the threshold
  std::vector<ThresholdRow> f1_, exact_;  // without it
  std::vector<double> odds_;
  std::vector<size_t> order_;  // by ascending odds
};

}  // namespace

std::unique_ptr<Scorer> answer_scorer(const Dataset& data, const Predictions& predictions, double threshold) {
  return std::make_unique<AnswerScorer>(data, predictions, threshold);
}

}  // namespace bertie::metrics
