#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bertie/text_model.h"

namespace bertie::serve {

// A model with a name. `all` computes with every core, `one` with a single thread.
struct ServedModel {
  std::string name;
  TextModel all, one;
  bool embeds = true;     // false: its files do not say how to make vectors
  int64_t loaded_at = 0;  // seconds since 1970
  std::map<std::string, std::string> prompts =
      {};  // sentence-transformers': a name, and what goes before texts
  // What `bertie heads --json` said of it, if its files have that: heads.json. Or that they have another
  // thing.
  std::string heads = {};
  bool bad_heads = false;

  // A cross-encoder: one number for a pair of texts.
  bool reranks() const { return all.can(Head::kClassify) && all.model().config().labels.size() == 1; }
};
using ModelPointer = std::shared_ptr<const ServedModel>;

}  // namespace bertie::serve
