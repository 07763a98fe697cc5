#include "serve/attention_cache.h"

namespace bertie::serve {

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
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += entry->attention->weights.size() * sizeof(float);
    entry = bytes > kMostBytes ? entries_.erase(entry) : std::next(entry);
  }
}

}  // namespace bertie::serve
