// Does this sentence follow that one?
#include "tasks/text_model_state.h"

namespace bertie {

std::vector<NextSentence> TextModel::next_sentence(std::span<const TextPair> pairs,
                                                   const NextSentenceOptions& options) const {
  require(Head::kNextSentence);
  const auto worker = state_->take_worker();
  std::vector<NextSentence> out(pairs.size());
  run_work(*worker, {.head = Head::kNextSentence,
                     .inputs = pairs.size(),
                     .add =
                         [&](size_t i) {
                           add_cut(*worker, tokenizer(), pairs[i], state_->head_length());
                           out[i].tokens = worker->encoding.size();
                           out[i].truncated = worker->encoding.truncated;
                         },
                     .use =
                         [&](size_t i, size_t, Matrix<const float> logits) {
                           float both[2] = {logits(0, 0), logits(0, 1)};
                           softmax(both);
                           out[i].is_next = both[0];
                         },
                     .progress = options.progress});
  return out;
}

NextSentence TextModel::next_sentence(std::string_view a, std::string_view b) const {
  const TextPair pair{a, b};
  return next_sentence(std::span(&pair, 1))[0];
}

}  // namespace bertie
