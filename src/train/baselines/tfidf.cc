#include "train/baselines/tfidf.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/baselines/words.h"

namespace bertie::baseline {
namespace {

std::vector<std::string_view> texts_of(const Dataset& data) {
  std::vector<std::string_view> out;
  for (const TextExample& example : data.texts) {
    out.push_back(example.a);
    if (data.kind == TaskKind::kPair) out.push_back(example.b);
  }
  return out;
}

// The columns of either, each with its values in both.
template <class Visit>
void visit_both(const Tfidf::Row& u, const Tfidf::Row& v, const Visit& visit) {
  size_t i = 0, j = 0;
  while (i < u.size() || j < v.size()) {
    const uint32_t column = i == u.size()   ? v[j].first
                            : j == v.size() ? u[i].first
                                            : std::min(u[i].first, v[j].first);
    const float in_u = i < u.size() && u[i].first == column ? u[i++].second : 0;
    const float in_v = j < v.size() && v[j].first == column ? v[j++].second : 0;
    visit(column, in_u, in_v);
  }
}

}  // namespace

Tfidf::Tfidf(const std::vector<std::string_view>& texts) {
  std::map<std::string, size_t> counts;
  for (const std::string_view text : texts) {
    const std::vector<std::string> words = long_words(text);
    for (const std::string& word : std::set<std::string>(words.begin(), words.end())) ++counts[word];
  }
  for (const auto& [word, count] : counts) {
    columns_.emplace(word, uint32_t(words_.size()));
    words_.push_back(word);
    idf_.push_back(std::log(double(1 + texts.size()) / double(1 + count)) + 1);
  }
}

Tfidf::Tfidf(const Dataset& data) : Tfidf(texts_of(data)) {}

Tfidf::Row Tfidf::row(std::string_view text) const {
  std::map<uint32_t, size_t> counts;
  for (const std::string& word : long_words(text))
    if (const auto found = columns_.find(word); found != columns_.end()) ++counts[found->second];
  double squares = 0;
  for (const auto& [column, count] : counts) squares += std::pow(double(count) * idf_[column], 2);
  Row out;
  for (const auto& [column, count] : counts)
    out.emplace_back(column, float(double(count) * idf_[column] / std::sqrt(squares)));
  return out;
}

FeatureRows Tfidf::features(const Dataset& data) const {
  const bool pairs = data.kind == TaskKind::kPair;
  const size_t width = words_.size();
  FeatureRows out{.rows = data.texts.size(), .columns = pairs ? 4 * width : width, .begins = {0}};
  const auto add = [&](size_t column, float value) {
    if (value != 0) out.places.push_back(uint32_t(column)), out.values.push_back(value);
  };
  for (const TextExample& example : data.texts) {
    const Row u = row(example.a), v = pairs ? row(example.b) : Row();
    for (const auto& [column, value] : u) add(column, value);
    for (const auto& [column, value] : v) add(width + column, value);
    if (pairs) {
      visit_both(u, v, [&](size_t c, float a, float b) { add(2 * width + c, std::abs(a - b)); });
      visit_both(u, v, [&](size_t c, float a, float b) { add(3 * width + c, a * b); });
    }
    out.begins.push_back(out.places.size());
  }
  return out;
}

}  // namespace bertie::baseline
