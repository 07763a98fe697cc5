#include "model/cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "core/checked.h"

namespace bertie {

Cache::Cache(const Model& model, size_t sequences) {
  const Config& c = model.config();
  if (!c.causal())
    throw Error(fmt::format("a {} reads all of a text at once: it has no use for a cache", c.model_type),
                "a causal model such as gpt2");
  state_ = std::make_unique<KeyValues>(KeyValues{c.depth(), c.hidden, c.max_tokens(), {}});
  state_->sequences.resize(sequences);
}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;
Cache::~Cache() = default;

size_t Cache::sequences() const { return state_->sequences.size(); }
size_t Cache::length(size_t sequence) const { return state_->sequences.at(sequence).length; }

void Cache::keep(size_t sequence, size_t tokens) {
  KeyValues::Sequence& s = state_->sequences.at(sequence);
  s.length = std::min(s.length, tokens);
}

size_t Cache::memory() const {
  size_t bytes = 0;
  for (const KeyValues::Sequence& s : state_->sequences) bytes += s.memory.size();
  return bytes;
}

void KeyValues::grow(size_t sequence, size_t tokens) {
  const Sequence& old = sequences[sequence];
  if (tokens <= old.capacity) return;
  Sequence larger;
  larger.capacity = std::max(tokens, std::min(most, std::max(size_t{64}, 2 * old.capacity)));
  larger.length = old.length;
  larger.memory = Block((Checked(2 * depth) * larger.capacity * hidden * sizeof(float)).value());
  for (size_t t = 0; t < 2 * depth && old.length > 0; ++t)
    std::copy_n(old.memory.as<float>() + t * old.capacity * hidden, old.length * hidden,
                larger.memory.as<float>() + t * larger.capacity * hidden);
  sequences[sequence] = std::move(larger);
}

}  // namespace bertie
