// Does this sentence follow that one?
#include "tasks/pipeline_state.h"

namespace bertie {

std::vector<float> Pipeline::next_sentence(std::span<const TextPair> pairs) {
  State& s = *state_;
  std::vector<float> out(pairs.size());
  s.work({.head = Head::kNextSentence,
          .inputs = pairs.size(),
          .add = [&](size_t i) { s.add_cut(pairs[i]); },
          .use =
              [&](size_t i, size_t, Matrix<const float> logits) {
                float both[2] = {logits(0, 0), logits(0, 1)};
                softmax(both);
                out[i] = both[0];
              }});
  return out;
}

float Pipeline::next_sentence(std::string_view a, std::string_view b) {
  const TextPair pair{a, b};
  return next_sentence(std::span(&pair, 1))[0];
}

}  // namespace bertie
