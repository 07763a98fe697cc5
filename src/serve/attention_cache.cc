#include "serve/attention_cache.h"

namespace bertie::serve {
namespace {

// About what an entry takes: a text may be long and have few tokens.
size_t bytes_of(const std::string& text, const Attention& a) {
  constexpr size_t kOfToken = 128;  // its text, id, type and place
  return a.weights.size() * sizeof(float) + a.n() * kOfToken + text.size() + sizeof(Attention);
}

}  // namespace

AttentionCache::Pointer AttentionCache::find(const Key& key) {
  std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if (entry->text == key.text && entry->model.lock() == key.model) {
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->attention;
    }
  return {};
}

void AttentionCache::keep(const Key& key, Pointer attention) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.model.expired() || (entry.text == key.text && entry.model.lock() == key.model);
  });
  entries_.push_front({key.model, key.text, std::move(attention)});
  size_t bytes = 0, count = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += bytes_of(entry->text, *entry->attention);
    const bool stays = bytes <= kMostBytes && ++count <= kMostEntries;
    entry = stays ? std::next(entry) : entries_.erase(entry);
  }
}

size_t AttentionCache::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace bertie::serve
