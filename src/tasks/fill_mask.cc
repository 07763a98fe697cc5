// What stands at a mask?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"
#include "tasks/pipeline_state.h"

namespace bertie {
namespace {

// The only tokens that may be proposed, in order and once each; all of them, where nobody named any.
std::vector<int32_t> candidates(const Tokenizer& tokenizer, std::span<const std::string> targets,
                                size_t all) {
  std::vector<int32_t> ids;
  if (targets.empty()) {
    ids.resize(all);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  for (const std::string& target : targets) {
    std::optional<int32_t> id = tokenizer.id(target);
    if (!id) {  // "Paris" of an uncased vocabulary, " Paris" of a byte-level one, or the first piece of a
                // word
      const Encoding pieces = tokenizer.encode(target, {.max_length = 1, .add_special_tokens = false});
      if (!pieces.ids.empty() && pieces.ids[0] != tokenizer.unk_id()) id = pieces.ids[0];
    }
    if (!id)
      throw Error(fmt::format("the target \"{}\" is nothing that the vocabulary could spell", target),
                  "a word in the letters that the model has learned");
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// The text again with one mask filled.
std::string filled(const Tokenizer& tokenizer, std::vector<int32_t> ids, size_t at, int32_t id,
                   bool skip_special) {
  ids[at] = id;
  std::erase(ids, tokenizer.pad_id());
  return tokenizer.decode(ids, skip_special);
}

[[noreturn]] void no_mask(const Tokenizer& tokenizer, bool cut) {
  const std::string_view mask = tokenizer.token(tokenizer.mask_id());
  if (cut)
    throw Error(fmt::format("the text has no {} in the part that the model can read", mask),
                "a shorter text, or only the sentences around the mask");
  throw Error("the text has no mask", fmt::format("write {} where a word is missing", mask));
}

}  // namespace

std::vector<std::vector<std::vector<Fill>>> Pipeline::fill_mask(std::span<const std::string_view> texts,
                                                                size_t top,
                                                                std::span<const std::string> targets) {
  State& s = *state_;
  s.need(Head::kMaskedLm);
  const int32_t mask = tokenizer().mask_id();
  if (mask < 0)
    throw Error("this model's tokenizer has no mask token", "a model that was trained with masks");
  const std::vector<int32_t> ids = candidates(tokenizer(), targets, model().config().vocabulary);
  top = std::min(top, ids.size());
  std::vector<int32_t> best(ids.size());
  std::vector<std::vector<std::vector<Fill>>> out(texts.size());
  std::vector<bool> masked(texts.size());
  s.work({.head = Head::kMaskedLm,
          .inputs = texts.size(),
          .add =
              [&](size_t i) {
                s.add_cut(texts[i]);
                for (size_t t = 0; t < s.encoding.size(); ++t)
                  if (s.encoding.ids[t] == mask) s.sequences.want(t), masked[i] = true;
                if (!masked[i] && s.encoding.size() > 0) s.sequences.want(0);  // none is not all
              },
          .use =
              [&](size_t i, size_t sequence, Matrix<const float> logits) {
                if (!masked[i]) return;
                const std::span<const int32_t> text = s.sequences.ids_of(sequence);
                out[i].resize(logits.rows());
                for (size_t m = 0; m < logits.rows(); ++m) {
                  const std::span<const float> row = logits[m];
                  const double most = *std::max_element(row.begin(), row.end());
                  double sum = 0;
                  for (float x : row) sum += std::exp(double(x) - most);
                  std::partial_sort_copy(ids.begin(), ids.end(), best.begin(), best.begin() + ptrdiff_t(top),
                                         [&](int32_t a, int32_t b) {
                                           const float x = row[size_t(a)], y = row[size_t(b)];
                                           return x > y || (x == y && a < b);
                                         });
                  const auto at = size_t(s.sequences.wanted[s.sequences.wanted_starts[sequence] + m]);
                  for (int32_t id : std::span(best).first(top))
                    out[i][m].push_back({.id = id,
                                         .token = tokenizer().decode(std::span(&id, 1), false),
                                         .sequence = filled(tokenizer(), {text.begin(), text.end()}, at, id,
                                                            logits.rows() == 1),
                                         .score = float(std::exp(double(row[size_t(id)]) - most) / sum)});
                }
              }});
  return out;
}

std::vector<std::vector<Fill>> Pipeline::fill_mask(std::string_view text, size_t top,
                                                   std::span<const std::string> targets) {
  std::vector<std::vector<Fill>> masks = std::move(fill_mask(std::span(&text, 1), top, targets)[0]);
  if (masks.empty()) no_mask(tokenizer(), truncated() > 0);
  return masks;
}

}  // namespace bertie
