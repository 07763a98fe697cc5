#pragma once
// What tools/make_metric_goldens.py wrote, and data made from it.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bertie/evaluate.h"
#include "support/data.h"

namespace bertie::test {

inline nlohmann::json golden_metrics(const std::string& name) {
  std::ifstream in(source_dir() / "tests/golden/metrics" / (name + ".json"));
  return nlohmann::json::parse(in);
}

// null is NaN.
inline void expect_number(double value, const nlohmann::json& expected, const std::string& what) {
  if (expected.is_null())
    EXPECT_TRUE(std::isnan(value)) << what << " is " << value;
  else
    EXPECT_NEAR(value, expected.get<double>(), 1e-12) << what;
}

inline double score_named(const Evaluation& evaluation, const std::string& name) {
  for (const NamedScore& score : evaluation.scores)
    if (score.name == name) return score.value;
  ADD_FAILURE() << "there is no score " << name;
  return 0;
}

// Every score that is expected.
inline void expect_scores(const Evaluation& evaluation, const nlohmann::json& expected,
                          const std::string& what) {
  for (const auto& [name, value] : expected.items())
    expect_number(score_named(evaluation, name), value, what + ": " + name);
}

// One class of `labels` a row, each predicted with its confidence, the others sharing the rest.
struct Labelled {
  Dataset data;
  Predictions predictions;
};

inline Labelled classes(size_t labels, const std::vector<int32_t>& truth,
                        const std::vector<int32_t>& predicted, const std::vector<float>& confidence) {
  Labelled out;
  for (size_t k = 0; k < labels; ++k) out.data.labels.push_back("class " + std::to_string(k));
  out.predictions.columns = labels;
  for (size_t i = 0; i < truth.size(); ++i) {
    out.data.texts.push_back({.a = "text " + std::to_string(i), .labels = {truth[i]}, .line = i + 2});
    std::vector<float> row(labels, (1 - confidence[i]) / float(labels - 1));
    row[size_t(predicted[i])] = confidence[i];
    out.predictions.scores.insert(out.predictions.scores.end(), row.begin(), row.end());
  }
  return out;
}

inline Labelled sentences(const std::vector<std::string>& labels,
                          const std::vector<std::vector<int32_t>>& truth,
                          const std::vector<std::vector<int32_t>>& predicted) {
  Labelled out{.data = {.kind = TaskKind::kTag, .labels = labels}, .predictions = {.tags = predicted}};
  for (const std::vector<int32_t>& tags : truth)
    out.data.sentences.push_back({std::vector<std::string>(tags.size(), "word"), tags, 1});
  return out;
}

}  // namespace bertie::test
