#pragma once
// Words weighted by how rare they are, as scikit-learn's TfidfVectorizer does without options:
//
//   idf(w) = ln((1 + n) / (1 + texts with w)) + 1             n texts
//   u[w]   = (times w is in the text)·idf(w), divided by the length of u
//
// A pair of texts u, v has the columns [u, v, |u − v|, u∘v].
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bertie/dataset.h"
#include "train/baselines/feature_rows.h"

namespace bertie::baseline {

class Tfidf {
 public:
  explicit Tfidf(const std::vector<std::string_view>& texts);
  // Of all texts of the data, both of a pair.
  explicit Tfidf(const Dataset& data);

  const std::vector<std::string>& words() const { return words_; }  // in order: the columns
  const std::vector<double>& idf() const { return idf_; }

  // A text's columns and their values, in order. Words that were not seen count for nothing.
  using Row = std::vector<std::pair<uint32_t, float>>;
  Row row(std::string_view text) const;
  FeatureRows features(const Dataset& data) const;

 private:
  std::vector<std::string> words_;
  std::vector<double> idf_;
  std::unordered_map<std::string, uint32_t> columns_;
};

}  // namespace bertie::baseline
