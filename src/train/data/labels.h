#pragma once
// Labels as files have them, and what they are: classes, several labels, or numbers.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/dataset.h"

namespace bertie {

// A row's label as it was written.
struct WrittenLabel {
  std::vector<std::string> names = {};  // one, or those of a list
  bool missing = false;
  bool list = false;
};

// Of a field of CSV or TSV: its text without white space around it. A list is one only if list_in_text says
// so.
WrittenLabel label_in_text(std::string_view text);
// A string, a number, a truth, a list of these, or null. Throws Error for anything else.
WrittenLabel label_in_json(const nlohmann::json& value);

// Whether a label holds, of a column that says 0 or 1, or false or true; nothing where the field is empty.
// Throws Error for anything else.
std::optional<bool> truth_of(const WrittenLabel& written);

// The parts of a list such as "a, b", without white space around them and without empty ones.
std::vector<std::string> separated(std::string_view text, char separator);

// By name; where all are whole numbers, by value.
void sort_labels(std::vector<std::string>& names);
// The place of a name among others, which must live as long; nothing where it is not there.
class LabelPlaces {
 public:
  explicit LabelPlaces(const std::vector<std::string>& names);
  std::optional<int32_t> find(std::string_view name) const;

 private:
  std::vector<std::pair<std::string_view, int32_t>> places_;  // sorted
};

// Rows' labels together.
class LabelColumn {
 public:
  void add(WrittenLabel label) { labels_.push_back(std::move(label)); }
  // What the labels are, where `given` does not say. Lists that stand in text ("['a', 'b']", and "a|b" where
  // several labels are expected) are taken apart.
  Problem settle(Problem given);
  // Of the rows, in the order that Dataset::labels has them; empty for a regression. After settle().
  std::vector<std::string> names() const;
  // A row's places among names(), or its number. Throws Error where the label is not what the problem needs.
  void put(size_t row, const LabelPlaces& places, TextExample& example) const;
  bool missing(size_t row) const { return labels_[row].missing; }

 private:
  std::vector<WrittenLabel> labels_;
  Problem problem_ = Problem::kUnset;
};

}  // namespace bertie
