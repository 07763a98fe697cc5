#pragma once
// The attention of texts that were looked at last, so that another head of the same text comes without
// another pass. Thread-safe; whoever has an entry keeps it.
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "bertie/results.h"
#include "serve/served_model.h"

namespace bertie::serve {

class AttentionCache {
 public:
  using Pointer = std::shared_ptr<const Attention>;  // all layers
  struct Key {
    ModelPointer model;
    std::string text;  // what was asked, with everything that changes the weights
  };

  Pointer find(const Key& key);  // null where there is none
  void keep(const Key& key, Pointer attention);

  // The oldest go first where there are more entries, or bytes of them.
  static constexpr size_t kMostEntries = 64, kMostBytes = size_t{256} << 20;
  size_t size();

 private:
  struct Entry {
    std::weak_ptr<const ServedModel> model;  // one that was loaded again must not stay for our sake
    std::string text;
    Pointer attention;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace bertie::serve
