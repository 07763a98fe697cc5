#include "serve/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "serve/heads.h"

namespace bertie::serve {
namespace {

[[noreturn]] void too_long(size_t tokens, size_t most, const std::string& field) {
  throw RequestError(413, fmt::format("`{}` must have at most {} tokens; one has {}", field, most, tokens),
                     field);
}

// [CLS] at the start, [SEP] at the end, as the tokenizer adds them.
std::pair<size_t, size_t> special_ends(const Encoding& encoding) {
  size_t head = 0, tail = 0;
  while (head < encoding.size() && encoding.special(head)) ++head;
  while (tail < encoding.size() - head && encoding.special(encoding.size() - 1 - tail)) ++tail;
  return {head, tail};
}

void leave_out_start(Encoding& encoding, size_t most) {
  if (encoding.size() <= most) return;
  const auto [head, tail] = special_ends(encoding);
  const auto first = encoding.ids.begin() + ptrdiff_t(head);
  encoding.ids.erase(first, first + ptrdiff_t(encoding.size() - most));
}

// What counting and cutting have in common: encode(i, options, encoding) is called for each input.
template <class Use>
void each_encoding(Call& call, size_t inputs, size_t most, Cut cut, const auto& encode, const Use& use) {
  const auto start = Clock::now();
  Encoding encoding;
  for (size_t i = 0; i < inputs; ++i) {
    const bool whole = !cut.allowed || cut.from_start;
    encode(i, EncodeOptions{.max_length = whole ? kNoLimit : most}, encoding);
    if (!cut.allowed && encoding.size() > most) too_long(encoding.size(), most, "inputs");
    if (cut.from_start) leave_out_start(encoding, most);
    use(i, encoding);
  }
  call.tokenize_seconds += to_seconds(Clock::now() - start);
}

}  // namespace

Cut cut_of(const Fields& fields, bool otherwise) {
  const std::string direction =
      fields.choice("truncation_direction", "right", {"right", "left", "Right", "Left"});
  return {fields.boolean("truncate", otherwise), direction == "left" || direction == "Left"};
}

std::vector<Ids> tokenize(Call& call, const TextModel& model, std::span<const std::string> texts, Cut cut) {
  std::vector<Ids> all(texts.size());
  each_encoding(
      call, texts.size(), model.max_length(), cut,
      [&](size_t i, const EncodeOptions& options, Encoding& e) {
        model.tokenizer().encode_into(texts[i], options, e);
      },
      [&](size_t i, const Encoding& e) { all[i] = e.ids; });
  for (const std::string& text : texts) call.count(text);
  return all;
}

Ids with_special_tokens(const TextModel& model, Ids ids, const std::string& field, Cut cut) {
  const Encoding around = model.tokenizer().encode("");
  const size_t most = model.max_length(), vocabulary = model.model().config().vocabulary;
  for (int32_t id : ids)
    if (size_t(id) >= vocabulary)
      throw RequestError(
          422,
          fmt::format("the token {} is beyond this model's vocabulary of {} tokens. Ids must be of its own "
                      "tokenizer; LangChain's OpenAIEmbeddings sends those of OpenAI's unless "
                      "check_embedding_ctx_length=False",
                      id, vocabulary),
          field);
  const bool has_special = !ids.empty() && around.size() > 0 && ids[0] == around.ids[0];
  if (!has_special && around.size() > 0) {
    ids.insert(ids.begin(), around.ids[0]);
    ids.insert(ids.end(), around.ids.begin() + 1, around.ids.end());
  }
  if (ids.empty()) throw RequestError(422, fmt::format("`{}` has no tokens", field), field);
  if (ids.size() <= most) return ids;
  if (!cut.allowed) too_long(ids.size(), most, field);
  const size_t tail = around.size() > 0 ? around.size() - 1 : 0;
  ids.erase(ids.begin() + ptrdiff_t(most - tail), ids.end() - ptrdiff_t(tail));
  return ids;
}

std::vector<Ids> ids_of(Call& call, const TextModel& model, const nlohmann::json& inputs,
                        const std::string& field, Cut cut, const std::string& prompt) {
  const auto own_ids = [&](const nlohmann::json& list) {
    Ids ids;
    for (const nlohmann::json& item : list) ids.push_back(token_of(item, field));
    return with_special_tokens(model, std::move(ids), field, cut);
  };
  std::vector<Ids> all;
  if (inputs.is_array() && !inputs.empty() && inputs[0].is_number()) {
    all.push_back(own_ids(inputs));
    return all;
  }
  if (inputs.is_array() && !inputs.empty() && inputs[0].is_array()) {
    check_count(field, inputs.size(), call.service.limits.inputs);
    for (const nlohmann::json& list : inputs) {
      if (!list.is_array())
        throw RequestError(422, fmt::format("`{}` must be all texts, or all lists of token ids", field),
                           field);
      all.push_back(own_ids(list));
    }
    return all;
  }
  std::vector<std::string> texts = strings_of(inputs, field, call.service.limits.inputs);
  if (texts.empty()) throw RequestError(400, fmt::format("`{}` is empty", field), field);
  if (!prompt.empty()) {
    check_product(call, texts.size(), prompt.size(), field);
    for (std::string& text : texts) text = prompt + text;
  }
  return tokenize(call, model, texts, cut);
}

std::string prompt_of(const ServedModel& model, const Fields& fields) {
  if (!fields.has("prompt_name")) return {};
  const auto prompt = model.prompts.find(fields.string("prompt_name"));
  if (prompt == model.prompts.end())
    throw RequestError(422,
                       fmt::format("the model {} has no such prompt{}", model.name,
                                   model.prompts.empty() ? ": it has none" : ""),
                       fields.path("prompt_name"));
  return prompt->second;
}

void check_product(const Call& call, size_t count, size_t bytes, const std::string& field) {
  const size_t most = call.service.limits.bytes;
  if (bytes > 0 && count > most / bytes)
    throw RequestError(413,
                       fmt::format("`{}`: {} times {} bytes are too many; together they may be {}", field,
                                   count, bytes, most),
                       field);
}

std::vector<size_t> count_tokens(Call& call, const TextModel& model, std::span<const std::string> texts,
                                 Cut cut) {
  std::vector<size_t> counts(texts.size());
  each_encoding(
      call, texts.size(), model.task_max_length(), cut,
      [&](size_t i, const EncodeOptions& options, Encoding& e) {
        model.tokenizer().encode_into(texts[i], options, e);
      },
      [&](size_t i, const Encoding& e) { counts[i] = e.size(); });
  for (const std::string& text : texts) call.count(text);
  return counts;
}

std::vector<size_t> count_tokens(Call& call, const TextModel& model, std::span<const TextPair> pairs,
                                 Cut cut) {
  std::vector<size_t> counts(pairs.size());
  each_encoding(
      call, pairs.size(), model.task_max_length(), cut,
      [&](size_t i, const EncodeOptions& options, Encoding& e) {
        if (pairs[i].b.data())
          model.tokenizer().encode_into(pairs[i].a, pairs[i].b, options, e);
        else
          model.tokenizer().encode_into(pairs[i].a, options, e);
      },
      [&](size_t i, const Encoding& e) { counts[i] = e.size(); });
  for (const TextPair& pair : pairs) call.count(pair.a), call.count(pair.b);
  return counts;
}

Async<std::vector<std::vector<float>>> vectors(Call& call, ModelPointer model, std::vector<Ids> ids,
                                               VectorOptions options) {
  const size_t dimension = model->all.dimension();
  if (options.dimensions > dimension)
    throw RequestError(422, fmt::format("`dimensions` must be at most {}, those of the model", dimension),
                       "dimensions");
  std::vector<std::span<const int32_t>> inputs(ids.begin(), ids.end());
  std::vector<size_t> lengths;
  for (const Ids& text : ids) lengths.push_back(text.size());
  const auto normalize = options.normalize;
  const std::string kind = !normalize ? "embed" : *normalize ? "embed normalized" : "embed as pooled";
  const auto compute = [normalize](const TextModel& m, std::span<const std::span<const int32_t>> texts) {
    std::vector<float> all(texts.size() * m.dimension());
    m.embed_tokens(texts, {all.data(), texts.size(), m.dimension()}, {.normalize = normalize});
    std::vector<std::vector<float>> rows;
    for (auto row = all.begin(); row != all.end(); row += ptrdiff_t(m.dimension()))
      rows.emplace_back(row, row + ptrdiff_t(m.dimension()));
    return rows;
  };
  auto rows = co_await call.run<std::vector<float>, std::span<const int32_t>>(model, kind, std::move(inputs),
                                                                              std::move(lengths), compute);
  if (options.dimensions > 0 && options.dimensions < dimension)
    for (std::vector<float>& row : rows) {
      row.resize(options.dimensions);
      if (!normalize.value_or(model->all.pooling().normalize)) continue;
      double squares = 0;
      for (float x : row) squares += double(x) * double(x);
      for (float& x : row) x = float(double(x) / std::max(std::sqrt(squares), 1e-12));
    }
  co_return rows;
}

Async<std::vector<Classification>> labels(Call& call, ModelPointer model, const std::vector<TextPair>& pairs,
                                          Apply apply, Cut cut, std::vector<WhichHead> off) {
  if (cut.from_start)
    throw RequestError(422, "`truncation_direction` must be right here", "truncation_direction");
  std::vector<size_t> lengths = count_tokens(call, model->all, pairs, cut);
  const bool paired = !pairs.empty() && pairs[0].b.data();
  const auto compute = [apply, paired, off](const TextModel& whole, std::span<const TextPair> all) {
    const TextModel m = whole.without(off);
    if (paired) return m.classify(all, {.apply = apply});
    std::vector<std::string_view> texts;
    for (const TextPair& one : all) texts.push_back(one.a);
    return m.classify(texts, {.apply = apply});
  };
  const std::string kind =
      fmt::format("classify {} {}{}", paired ? "pairs" : "texts", int(apply), kind_of(off));
  auto all = co_await call.run<Classification, TextPair>(model, kind, pairs, std::move(lengths), compute);
  co_return all;
}

}  // namespace bertie::serve
