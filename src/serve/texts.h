#pragma once
// What routes share: texts of a request to tokens, tokens to vectors.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/service.h"

namespace bertie::serve {

using Ids = std::vector<int32_t>;

// What is done to a text that is longer than the model takes.
struct Cut {
  bool allowed = true;      // false: 413
  bool from_start = false;  // its start is left out, not its end
};

// The body's `truncate` and `truncation_direction`.
Cut cut_of(const Fields& fields, bool otherwise);

// Each text as the model reads it, special tokens included.
std::vector<Ids> tokenize(Call& call, const TextModel& model, std::span<const std::string> texts, Cut cut);
// Ids of a client's own with special tokens around them. `field` is what errors call them.
Ids with_special_tokens(const TextModel& model, Ids ids, const std::string& field, Cut cut);

// `inputs` of a request for vectors: a text, texts, ids or lists of ids. `prompt` goes before texts.
std::vector<Ids> ids_of(Call& call, const TextModel& model, const nlohmann::json& inputs,
                        const std::string& field, Cut cut, const std::string& prompt = {});
// What the body's `prompt_name` stands for; 422 where the model has none of that name.
std::string prompt_of(const ServedModel& model, const Fields& fields);

// 413 where so many things of so many bytes are more than a request may come to.
void check_product(const Call& call, size_t count, size_t bytes, const std::string& field);

// How many tokens each input has, cut at `most` tokens or, where that is not allowed, refused with 413.
std::vector<size_t> count_tokens(Call& call, const TextModel& model, std::span<const std::string> texts,
                                 Cut cut);
std::vector<size_t> count_tokens(Call& call, const TextModel& model, std::span<const TextPair> pairs,
                                 Cut cut);

struct VectorOptions {
  std::optional<bool> normalize = true;
  size_t dimensions = 0;  // the first ones, to length 1 again where vectors are; 0: all
};
Async<std::vector<std::vector<float>>> vectors(Call& call, ModelPointer model, std::vector<Ids> ids,
                                               VectorOptions options);
// The labels of each text or pair, best first; with these heads of the model off.
Async<std::vector<Classification>> labels(Call& call, ModelPointer model, const std::vector<TextPair>& pairs,
                                          Apply apply, Cut cut, std::vector<WhichHead> off = {});

}  // namespace bertie::serve
