#pragma once
// What routes that look at heads share: heads that a request switches off, and replies of attention's shape.
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "bertie/explain.h"
#include "serve/texts.h"

namespace bertie::serve {

// `without`: a list of [layer, head], both from 1; missing: none.
std::vector<WhichHead> heads_off_of(const Fields& fields, const Config& config);
// The model that a request is for: with these off.
TextModel model_for(const TextModel& model, const Fields& fields);
// Everything of a request that its weights depend on, but for the model.
std::string attention_key(const Fields& fields);
// For the kind of a job, which must not share passes with others: " without 0-1 2-3".
std::string kind_of(const std::vector<WhichHead>& off);

// `pair` of a request, and layers or heads, from 1 to `most`, as numbers from 0; missing: all.
std::optional<std::string> pair_of(const Fields& fields);
std::vector<size_t> numbers_of(const Fields& fields, const char* name, size_t most);
// Tokens of a text or a pair; 413 where the model has no positions for them.
size_t length_of(Call& call, const TextModel& model, const std::string& text,
                 const std::optional<std::string>& pair);
// 413 where so many layers for so many tokens are more than one reply may have.
void check_weights(size_t layers, size_t heads, size_t tokens);

// `format` and, for npy, `precision` of a reply. JSON has all digits.
struct NumberFormat {
  bool npy = false;
  std::string precision = "float32";
};
NumberFormat number_format_of(const Fields& fields, std::initializer_list<std::string_view> precisions);
HttpReply npy_reply(const Grid& numbers, const std::string& precision);  // float32 or float16

// A reply as /attention's, head by head: all of them may be hundreds of megabytes of text.
struct AttentionReply {
  AttentionCache::Pointer attention;
  std::vector<size_t> layers, heads;  // that are wanted, from 0
  std::string model;
  NumberFormat format = {};
  std::string more_fields = {};  // of JSON: ready text, with a comma at its end
};
HttpReply attention_reply(AttentionReply reply);

}  // namespace bertie::serve
