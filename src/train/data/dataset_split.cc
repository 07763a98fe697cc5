// Rows taken out for evaluation.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "bertie/dataset.h"
#include "core/random.h"

namespace bertie {
namespace {

void shuffle_rows(std::vector<size_t>& rows, uint64_t seed, uint64_t stream) {
  Random random(seed, stream);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(uint32_t(i))]);
}

size_t rounded_share(size_t rows, double share, bool at_least_one = true) {
  if (rows < 2) return 0;
  return std::clamp<size_t>(size_t(std::llround(double(rows) * share)), at_least_one ? 1 : 0, rows - 1);
}

// Of each label the same share. A row may have several: then the rarest labels choose first, as rows for the
// others are easily found (Sechidis et al. 2011). Rows without labels, and sentences, are all of one kind.
void choose_by_label(const Dataset& data, double share, uint64_t seed, std::vector<char>& in_dev) {
  std::vector<std::vector<size_t>> rows_of(data.labels.size() + 1);
  for (size_t i = 0; i < data.texts.size(); ++i) {
    for (const int32_t label : data.texts[i].labels) rows_of[size_t(label)].push_back(i);
    if (data.texts[i].labels.empty()) rows_of.back().push_back(i);
  }
  for (size_t i = 0; i < data.sentences.size(); ++i) rows_of.back().push_back(i);

  std::vector<size_t> order(rows_of.size());
  std::iota(order.begin(), order.end(), size_t{0});
  shuffle_rows(order, seed, rows_of.size());  // so that no name has an advantage
  if (data.problem == Problem::kMultiLabel && !data.texts.empty())
    std::ranges::stable_sort(order, {}, [&](size_t label) { return rows_of[label].size(); });
  const size_t all = rounded_share(data.size(), share);
  std::vector<char> settled(data.size());
  size_t chosen = 0;
  for (const size_t label : order) {
    std::vector<size_t>& rows = rows_of[label];
    // Every label has one, but labels of two rows are not to take half of the data.
    size_t wanted = rounded_share(rows.size(), share, chosen < 2 * all);
    // Of two numbers or fewer there is no correlation.
    if (data.problem == Problem::kRegression && data.sentences.empty())
      wanted = std::max(wanted, std::min<size_t>(3, rows.size() / 3));
    shuffle_rows(rows, seed, label);
    size_t have = size_t(std::ranges::count_if(rows, [&](size_t row) { return in_dev[row] != 0; }));
    for (const size_t row : rows)
      if (!std::exchange(settled[row], 1) && have < wanted) in_dev[row] = 1, ++have, ++chosen;
  }
  if (chosen == 0) in_dev[Random(seed).below(uint32_t(data.size()))] = 1;  // a class of its own for every row
}

// Questions about a context go together, so that none is asked about a text that was learned from.
void choose_questions(const std::vector<SquadQuestion>& questions, double share, uint64_t seed,
                      std::vector<char>& in_dev) {
  std::map<std::string_view, std::vector<size_t>> contexts;
  for (size_t i = 0; i < questions.size(); ++i) contexts[questions[i].context].push_back(i);
  std::vector<const std::vector<size_t>*> groups;
  for (const auto& [context, rows] : contexts) groups.push_back(&rows);
  // In the order of the file: that of the texts' bytes says nothing.
  std::ranges::sort(groups, {}, [](const auto* rows) { return rows->front(); });
  std::vector<size_t> order(groups.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  shuffle_rows(order, seed, 0);
  const size_t wanted = rounded_share(questions.size(), share);
  size_t taken = 0;
  for (size_t i = 0; i + 1 < order.size() && taken < wanted; ++i)
    for (const size_t row : *groups[order[i]]) in_dev[row] = 1, ++taken;
  if (order.size() > 1) return;
  std::vector<size_t> rows = *groups[0];  // all about one context
  shuffle_rows(rows, seed, 0);
  for (size_t i = 0; i < wanted; ++i) in_dev[rows[i]] = 1;
}

template <class Row>
void share_out(std::vector<Row>& rows, const std::vector<char>& in_dev, std::vector<Row>& train,
               std::vector<Row>& dev) {
  for (size_t i = 0; i < rows.size(); ++i) (in_dev[i] ? dev : train).push_back(std::move(rows[i]));
}

}  // namespace

SplitDataset split(Dataset data, double dev_share, uint64_t seed) {
  if (!(dev_share > 0 && dev_share < 1))
    throw Error("`dev_share` is not between 0 and 1", "0.1 takes a tenth", "dev_share");
  if (data.size() < 2)
    throw Error(data.file + " has one row: there is nothing to take out for evaluation",
                data.kind == TaskKind::kTag
                    ? "an empty line after each sentence, if there are several; it was read as " + data.found
                    : std::string("more rows"));
  std::vector<char> in_dev(data.size());
  if (data.kind == TaskKind::kAnswer)
    choose_questions(data.questions, dev_share, seed, in_dev);
  else
    choose_by_label(data, dev_share, seed, in_dev);

  std::vector<TextExample> texts = std::exchange(data.texts, {});
  std::vector<TaggedSentence> sentences = std::exchange(data.sentences, {});
  std::vector<SquadQuestion> questions = std::exchange(data.questions, {});
  SplitDataset parts{.train = data, .dev = data};
  parts.dev.bad_rows = parts.dev.invalid_rows = 0;
  share_out(texts, in_dev, parts.train.texts, parts.dev.texts);
  share_out(sentences, in_dev, parts.train.sentences, parts.dev.sentences);
  share_out(questions, in_dev, parts.train.questions, parts.dev.questions);
  return parts;
}

}  // namespace bertie
