// Rows taken out for evaluation.
#include <algorithm>
#include <cmath>
#include <map>
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

// Rows that should be shared out alike: those of a class; sentences are all of one kind.
std::vector<std::vector<size_t>> strata(const Dataset& data) {
  std::map<std::vector<int32_t>, std::vector<size_t>> groups;
  for (size_t i = 0; i < data.texts.size(); ++i) groups[data.texts[i].labels].push_back(i);
  for (size_t i = 0; i < data.sentences.size(); ++i) groups[{}].push_back(i);
  std::vector<std::vector<size_t>> all;
  for (auto& [labels, rows] : groups) all.push_back(std::move(rows));
  return all;
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
                    ? "it was read as " + data.found + "; an empty line ends a sentence"
                    : std::string("more rows"));
  std::vector<char> in_dev(data.size());
  if (data.kind == TaskKind::kAnswer) {
    choose_questions(data.questions, dev_share, seed, in_dev);
  } else {
    const size_t all = rounded_share(data.size(), dev_share);
    size_t chosen = 0, stream = 0;
    for (std::vector<size_t>& rows : strata(data)) {
      // Every class has one, but classes of two rows are not to take half of the data.
      size_t wanted = rounded_share(rows.size(), dev_share, chosen < 2 * all);
      // Of two numbers or fewer there is no correlation.
      if (data.problem == Problem::kRegression && data.sentences.empty())
        wanted = std::max(wanted, std::min<size_t>(3, rows.size() / 3));
      shuffle_rows(rows, seed, stream++);
      for (size_t i = 0; i < wanted; ++i) in_dev[rows[i]] = 1;
      chosen += wanted;
    }
    if (chosen == 0)
      in_dev[Random(seed).below(uint32_t(data.size()))] = 1;  // a class of its own for every row
  }

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
