// What stands at a mask?
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"
#include "io/quote.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// The only tokens that may be proposed, in order and once each; all of them where none are named.
std::vector<int32_t> candidates(const Tokenizer& tokenizer, std::span<const std::string> targets,
                                size_t all) {
  std::vector<int32_t> ids;
  if (targets.empty()) {
    ids.resize(all);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  for (const std::string& target : targets) {
    ids.push_back(vocabulary_id(tokenizer, target, "targets"));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// The text again with one mask filled. Other masks stay; the special tokens that encoding added do not.
std::string filled(const Tokenizer& tokenizer, const Sequences& sequences, size_t sequence, size_t at,
                   int32_t id) {
  const size_t start = sequences.starts[sequence];
  std::vector<int32_t> ids;
  for (size_t t = 0; t < sequences.length(sequence); ++t) {
    const int32_t shown = t == at ? id : sequences.ids[start + t];
    if (sequences.texts[start + t] >= 0 && shown != tokenizer.pad_id()) ids.push_back(shown);
  }
  return tokenizer.decode(ids, sequences.wanted_count(sequence) == 1);
}

[[noreturn]] void no_mask(const Tokenizer& tokenizer, bool cut) {
  const std::string_view mask = tokenizer.token(tokenizer.mask_id());
  if (cut)
    throw Error(fmt::format("the text has no {} in the part that the model can read", mask),
                "a shorter text, or only the sentences around the mask");
  throw Error("the text has no mask", fmt::format("write {} where a word is missing", mask));
}

}  // namespace

int32_t vocabulary_id(const Tokenizer& tokenizer, const std::string& word, const std::string& field) {
  if (const std::optional<int32_t> id = tokenizer.id(word)) return *id;
  // "Paris" of an uncased vocabulary, " Paris" of a byte-level one, or the first piece of a word
  const Encoding pieces = tokenizer.encode(word, {.max_length = 1, .add_special_tokens = false});
  if (!pieces.ids.empty() && pieces.ids[0] != tokenizer.unk_id()) return pieces.ids[0];
  throw Error(fmt::format("the target {} is nothing that the vocabulary could spell", io::quote(word)),
              "a word in the letters that the model has learned", field);
}

std::vector<MaskFilling> TextModel::fill_mask(const Texts& texts, const FillMaskOptions& options) const {
  require(Head::kMaskedLm);
  const int32_t mask = tokenizer().mask_id();
  if (mask < 0)
    throw Error("this model's tokenizer has no mask token", "a model that was trained with masks");
  const std::vector<int32_t> ids = candidates(tokenizer(), options.targets, model().config().vocabulary);
  const size_t top = std::min(options.top, ids.size());
  const auto worker = state_->take_worker();
  Sequences& sequences = worker->sequences;
  std::vector<int32_t> best(ids.size());
  std::vector<MaskFilling> out(texts.size());
  std::vector<bool> masked(texts.size());
  const auto add = [&](size_t i) {
    const Encoding& encoding = worker->encoding;
    tokenizer().encode_into(texts[i], {.max_length = state_->head_length()}, worker->encoding);
    sequences.add_with_places(encoding);
    out[i].tokens = encoding.size(), out[i].truncated = encoding.truncated;
    for (size_t t = 0; t < encoding.size(); ++t)
      if (encoding.ids[t] == mask) sequences.want(t), masked[i] = true;
    if (!masked[i] && encoding.size() > 0) sequences.want(0);  // none is not all
  };
  const auto use = [&](size_t i, size_t sequence, Matrix<const float> logits) {
    if (!masked[i]) return;
    out[i].masks.resize(logits.rows());
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
      const auto at = size_t(sequences.wanted[sequences.wanted_starts[sequence] + m]);
      for (int32_t id : std::span(best).first(top))
        out[i].masks[m].push_back({.id = id,
                                   .token = tokenizer().decode(std::span(&id, 1), false),
                                   .sequence = filled(tokenizer(), sequences, sequence, at, id),
                                   .score = float(std::exp(double(row[size_t(id)]) - most) / sum)});
    }
  };
  run_work(*worker, {.head = Head::kMaskedLm,
                     .inputs = texts.size(),
                     .add = add,
                     .use = use,
                     .progress = options.progress});
  return out;
}

MaskFilling TextModel::fill_mask(std::string_view text, const FillMaskOptions& options) const {
  MaskFilling filling = std::move(fill_mask(Texts(std::span(&text, 1)), options)[0]);
  if (filling.masks.empty()) no_mask(tokenizer(), filling.truncated);
  return filling;
}

}  // namespace bertie
