#include "train/baselines/word_batch.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"

namespace bertie::baseline {

WordBatch make_word_batch(std::span<const std::span<const int32_t>> sequences) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t s) { return sequences[s].size(); });
  WordBatch out{.steps = {0}, .offsets = {0}};
  for (const std::span<const int32_t> sequence : sequences)
    out.offsets.push_back(out.offsets.back() + int32_t(sequence.size()));
  out.rows.resize(size_t(out.offsets.back()));
  const size_t longest = order.empty() ? 0 : sequences[order[0]].size();
  for (size_t t = 0; t < longest; ++t) {
    for (const size_t s : order) {
      if (sequences[s].size() <= t) break;
      out.rows[size_t(out.offsets[s]) + t] = int32_t(out.words.size());
      out.words.push_back(sequences[s][t]);
    }
    out.steps.push_back(out.words.size());
  }
  return out;
}

std::vector<std::vector<size_t>> batches_of_similar_length(const std::vector<size_t>& lengths, size_t batch,
                                                           uint64_t seed, uint64_t epoch) {
  constexpr size_t kPool = 32;  // batches whose sequences are sorted together
  constexpr uint64_t kBatchOrder = uint64_t{1} << 31;
  std::vector<size_t> order(lengths.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = shuffled(i, order.size(), seed, epoch);
  std::vector<std::vector<size_t>> sorted;
  for (size_t first = 0; first < order.size(); first += kPool * batch) {
    const auto begin = order.begin() + ptrdiff_t(first);
    const auto end = order.begin() + ptrdiff_t(std::min(order.size(), first + kPool * batch));
    std::stable_sort(begin, end, [&](size_t a, size_t b) { return lengths[a] < lengths[b]; });
    for (auto at = begin; at < end; at += std::min<ptrdiff_t>(ptrdiff_t(batch), end - at))
      sorted.emplace_back(at, at + std::min<ptrdiff_t>(ptrdiff_t(batch), end - at));
  }
  std::vector<std::vector<size_t>> out;
  for (size_t i = 0; i < sorted.size(); ++i)
    out.push_back(std::move(sorted[shuffled(i, sorted.size(), seed, kBatchOrder | epoch)]));
  return out;
}

}  // namespace bertie::baseline
