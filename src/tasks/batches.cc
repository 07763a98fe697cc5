#include "tasks/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"

namespace bertie {

void check_finite(Matrix<const float> numbers) {
  for (size_t r = 0; r < numbers.rows(); ++r)
    for (float x : numbers[r])
      if (!std::isfinite(x))
        throw Error("the model's numbers are not finite: NaN or infinity came out",
                    "the checkpoint is damaged, or was stored in fp16 although its numbers are too large");
}

namespace {

constexpr size_t kBatchTokens = 2048;
constexpr size_t kBatchRows = 256;  // of logits over a whole vocabulary: 30 MB

void append(auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }

bool judges_sequences(Head head) { return head == Head::kNextSentence || head == Head::kClassify; }

}  // namespace

void Sequences::clear() {
  ids.clear(), types.clear(), offsets.clear(), words.clear(), texts.clear(), wanted.clear();
  starts.assign(1, 0), wanted_starts.assign(1, 0);
}

void Sequences::add(const Encoding& encoding) {
  append(ids, encoding.ids);
  append(types, encoding.types);
  starts.push_back(ids.size());
  wanted_starts.push_back(wanted.size());
}

void Sequences::add(std::span<const int32_t> tokens) {
  append(ids, tokens);
  types.resize(ids.size());
  starts.push_back(ids.size());
  wanted_starts.push_back(wanted.size());
}

void Sequences::add_with_places(const Encoding& encoding) {
  append(offsets, encoding.offsets);
  append(words, encoding.words);
  append(texts, encoding.sequences);
  add(encoding);
}

void Sequences::want(size_t token) {
  wanted.push_back(int32_t(token));
  ++wanted_starts.back();
}

void Batches::run(Run& run, const Sequences& all, std::optional<Head> head, const Use& use,
                  const std::function<void()>& done) {
  order_.resize(all.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return all.length(a) > all.length(b); });
  const auto part = [](const auto& whole, size_t first, size_t end) {
    return std::span(whole).subspan(first, end - first);
  };
  for (size_t first = 0; first < order_.size();) {
    ids_.clear(), types_.clear(), rows_.clear();
    offsets_.assign(1, 0);
    size_t last = first;
    while (last < order_.size() &&
           (last == first || (ids_.size() + all.length(order_[last]) <= kBatchTokens &&
                              rows_.size() + all.wanted_count(order_[last]) <= kBatchRows))) {
      const size_t i = order_[last++];
      for (int32_t token : part(all.wanted, all.wanted_starts[i], all.wanted_starts[i + 1]))
        rows_.push_back(offsets_.back() + token);
      append(ids_, part(all.ids, all.starts[i], all.starts[i + 1]));
      append(types_, part(all.types, all.starts[i], all.starts[i + 1]));
      offsets_.push_back(int32_t(ids_.size()));
    }
    const Output& output = run.forward({.ids = ids_, .types = types_, .offsets = offsets_},
                                       {.last_hidden = !head, .head = head, .rows = rows_});
    check_finite(head ? output.logits : output.last_hidden);
    for (size_t b = 0, row = 0; first + b < last; ++b) {
      const size_t i = order_[first + b];
      const auto begin = size_t(offsets_[b]), count = all.length(i), wanted = all.wanted_count(i);
      if (!head)
        use(i, output.last_hidden.slice_rows(begin, count));
      else if (judges_sequences(*head))
        use(i, output.logits.slice_rows(b, 1));
      else if (rows_.empty())
        use(i, output.logits.slice_rows(begin, count));
      else
        use(i, output.logits.slice_rows(row, wanted));
      row += wanted;
    }
    first = last;
    if (done) done();
  }
}

}  // namespace bertie
