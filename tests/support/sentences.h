#pragma once
// Random batches for models: sequences of token ids, packed.
#include <algorithm>
#include <vector>

#include "bertie/model.h"
#include "core/random.h"
#include "support/numbers.h"

namespace bertie::test {

using Sentence = std::vector<int32_t>;

inline Sentence random_sentence(Random& random, size_t length, const Config& config) {
  Sentence ids(length);
  for (int32_t& id : ids) id = int32_t(random.below(uint32_t(config.vocabulary)));
  return ids;
}

// Sentences one after the other; types alternate in a way that depends on a token's place in its sentence.
struct Packed {
  explicit Packed(std::span<const Sentence> sentences, size_t type_count = 1) {
    for (const Sentence& s : sentences) {
      ids.insert(ids.end(), s.begin(), s.end());
      for (size_t t = 0; t < s.size(); ++t) types.push_back(int32_t(t / 3 % type_count));
      offsets.push_back(int32_t(ids.size()));
    }
  }
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
  std::vector<int32_t> ids, types, offsets{0};
};

// Everything that a forward pass says about one sentence.
struct Seen {
  std::vector<float> last_hidden, states, pooled, attention;
};

inline Seen seen(const Model& model, const Output& out, const Packed& packed, size_t s) {
  const auto first = size_t(packed.offsets[s]), n = size_t(packed.offsets[s + 1]) - first;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  Seen result;
  result.last_hidden = copy_of(out.last_hidden.slice_rows(first, n));
  for (const auto& state : out.hidden_states) append(result.states, copy_of(state.slice_rows(first, n)));
  result.pooled = copy_of(out.pooled.slice_rows(s, 1));
  for (size_t l = 0; l < model.config().layers; ++l)
    for (size_t h = 0; h < model.config().heads; ++h)
      append(result.attention, copy_of(out.attention(l, s, h)));
  return result;
}

inline testing::AssertionResult same_bits(const Seen& a, const Seen& b) {
  for (auto [what, x, y] :
       {std::tuple("last hidden state", &a.last_hidden, &b.last_hidden),
        std::tuple("hidden states", &a.states, &b.states), std::tuple("pooled vector", &a.pooled, &b.pooled),
        std::tuple("attention", &a.attention, &b.attention)})
    if (auto same = same_bits(*x, *y); !same) return same << " in the " << what;
  return testing::AssertionSuccess();
}

inline const Capture kEverything{.hidden_states = true, .pooled = true, .all_attention = true};

}  // namespace bertie::test
