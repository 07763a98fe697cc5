// How likely is a text, token by token?
//
// A masked model reads the text once for each token, with that token masked (the pseudo-log-likelihood of
// Salazar et al. 2020): n copies of n tokens, packed into batches. A causal one reads it once, after the
// token that begins texts.
#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// The probability of `id`, and of what is likelier than everything else.
void judge(const Tokenizer& tokenizer, std::span<const float> logits, TokenScore& token) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - *best);
  const double all = double(*best) + std::log(sum);
  token.log_probability = double(logits[size_t(token.id)]) - all;
  token.likeliest_id = int32_t(best - logits.begin());
  token.likeliest = tokenizer.decode(std::span(&token.likeliest_id, 1), false);
  token.likeliest_log_probability = double(*best) - all;
}

}  // namespace

double TextScore::log_probability() const {
  double sum = 0;
  for (const TokenScore& token : scores) sum += token.log_probability;
  return sum;
}

double TextScore::perplexity() const {
  return scores.empty() ? NAN : std::exp(-log_probability() / double(scores.size()));
}

std::vector<TextScore> TextModel::score(const Texts& texts, const TextScoreOptions& options) const {
  const bool causal = can(Head::kCausalLm);
  const Head head = causal ? Head::kCausalLm : Head::kMaskedLm;
  require(head);
  const Config& config = model().config();
  const int32_t mask = tokenizer().mask_id(), begin = config.bos_id >= 0 ? config.bos_id : config.eos_id;
  if (causal ? begin < 0 : mask < 0)
    throw Error(
        causal ? "this model has no token that begins a text" : "this model's tokenizer has no mask token",
        causal ? "a config.json with \"bos_token_id\"" : "a model that was trained with masks");
  const auto worker = state_->take_worker();
  Sequences& sequences = worker->sequences;
  Encoding& encoding = worker->encoding;
  std::vector<TextScore> out(texts.size());
  std::vector<size_t> first(texts.size());  // place of the first token that is scored
  const auto add = [&](size_t i) {
    tokenizer().encode_into(texts[i], {.max_length = state_->head_length() - size_t(causal)}, encoding);
    out[i].tokens = encoding.size(), out[i].truncated = encoding.truncated;
    for (size_t t = 0; t < encoding.size(); ++t) {
      if (encoding.sequences[t] < 0) continue;
      if (out[i].scores.empty()) first[i] = t;
      out[i].scores.push_back({.id = encoding.ids[t],
                               .token = tokenizer().decode(std::span(&encoding.ids[t], 1), false),
                               .offset = encoding.offsets[t],
                               .word = encoding.words[t]});
    }
    if (out[i].scores.empty()) return;
    if (causal) {
      encoding.ids.insert(encoding.ids.begin(), begin);
      encoding.types.insert(encoding.types.begin(), 0);
      sequences.add(encoding);
      for (size_t k = 0; k < out[i].scores.size(); ++k) sequences.want(first[i] + k);
      return;
    }
    for (size_t k = 0; k < out[i].scores.size(); ++k) {
      encoding.ids[first[i] + k] = mask;
      sequences.add(encoding);
      sequences.want(first[i] + k);
      encoding.ids[first[i] + k] = out[i].scores[k].id;
    }
  };
  const auto use = [&](size_t i, size_t sequence, Matrix<const float> logits) {
    const size_t k = size_t(sequences.wanted[sequences.wanted_starts[sequence]]) - first[i];
    for (size_t r = 0; r < logits.rows(); ++r) judge(tokenizer(), logits[r], out[i].scores[k + r]);
  };
  run_work(*worker,
           {.head = head, .inputs = texts.size(), .add = add, .use = use, .progress = options.progress});
  return out;
}

TextScore TextModel::score(std::string_view text, const TextScoreOptions& options) const {
  return std::move(score(Texts(std::span(&text, 1)), options)[0]);
}

}  // namespace bertie
