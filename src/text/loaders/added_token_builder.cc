#include "text/loaders/added_token_builder.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/quote.h"

namespace bertie::text {

void AddedTokenBuilder::add(AddedToken token) {
  if (token.content.empty() || !seen_.insert(token.content).second) return;
  const int32_t known = vocabulary_.id(token.content);
  const int32_t id = known >= 0 ? known : int32_t(vocabulary_.size());
  if (token.id >= 0 && token.id != id)
    throw Error(vocabulary_.name() + ": the added token " + io::quote(token.content) + " has id " +
                    std::to_string(id) + " here, and " + std::to_string(token.id) +
                    " in added_tokens.json or tokenizer_config.json",
                "Added tokens must have the ids that follow the vocabulary, without gaps.");
  if (known < 0) vocabulary_.add_outside(token.content, uint64_t(id));
  token.id = id;
  tokens_.push_back(std::move(token));
}

std::vector<AddedToken> AddedTokenBuilder::finish(
    const std::function<std::string(const std::string&)>& normalize) {
  for (AddedToken& t : tokens_)
    if (t.normalized) t.content = normalize(t.content);
  std::erase_if(tokens_, [](const AddedToken& t) { return t.content.empty(); });
  std::stable_partition(tokens_.begin(), tokens_.end(), [](const AddedToken& t) { return t.special; });
  return std::move(tokens_);
}

}  // namespace bertie::text
