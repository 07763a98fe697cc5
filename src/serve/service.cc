#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace bertie::serve {

HttpReply json_reply(std::string body) { return {.body = std::move(body)}; }

void Call::count(std::string_view text) {
  characters += size_t(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

void Call::check_tokens(std::span<const size_t> tokens_of) {
  const size_t sum = std::accumulate(tokens_of.begin(), tokens_of.end(), size_t{0});
  if (tokens_of.size() > service.limits.inputs + 1)  // texts, and a query
    throw RequestError(413, fmt::format("{} texts are too many for one request: it may have {}",
                                        tokens_of.size(), service.limits.inputs));
  for (size_t one : tokens_of)
    if (one > service.limits.piece)
      throw RequestError(413, fmt::format("this would be {} tokens of work in one piece; it may have {}", one,
                                          service.limits.piece));
  if (tokens + sum > service.limits.tokens)
    throw RequestError(413, fmt::format("{} tokens are too many for one request: it may have {}", sum,
                                        service.limits.tokens));
  inputs += tokens_of.size(), tokens += sum;
}

}  // namespace bertie::serve
