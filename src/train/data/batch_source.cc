#include "train/data/batch_source.h"

#include <algorithm>

namespace bertie {

size_t BatchStorage::count(const Term& term) const {
  const auto is_target = [](int32_t t) { return t >= 0; };
  const bool answer = term.spec.head == Head::kAnswer;
  if (term.uses_hidden()) return term.rows.empty() ? ids.size() : term.rows.size();
  if (!term.values.empty()) return term.values.size();
  // A teacher's answer is all tokens of a sequence; otherwise it says something about each row.
  if (!term.teacher.empty()) return answer ? sequences() : term.teacher.size() / term.teacher_columns;
  if (!answer) return size_t(std::count_if(term.targets.begin(), term.targets.end(), is_target));
  size_t answers = 0;  // a first and a last token each
  for (size_t i = 0; i + 1 < term.targets.size(); i += 2)
    answers += is_target(term.targets[i]) || is_target(term.targets[i + 1]);
  return answers;
}

BatchStorage::BatchStorage(std::span<const TermSpec> specs) {
  for (const TermSpec& spec : specs) terms.push_back({.spec = spec});
}

void BatchStorage::reserve(size_t sequences, size_t tokens) {
  for (auto* v : {&ids, &types, &target_ids}) v->reserve(tokens);
  for (auto* v : {&offsets, &target_offsets}) v->reserve(sequences + 1);
  for (Term& term : terms) {
    for (auto* v : {&term.rows, &term.targets}) v->reserve(std::max(tokens, 2 * sequences));
    term.values.reserve(sequences);
  }
}

void BatchStorage::clear() {
  for (auto* v : {&ids, &types, &offsets, &target_ids, &target_offsets}) v->clear();
  teacher_hidden.clear();
  for (Term& term : terms) {
    for (auto* v : {&term.rows, &term.targets}) v->clear();
    for (auto* v : {&term.values, &term.teacher}) v->clear();
  }
}

}  // namespace bertie
