// bertie explain
#include "bertie/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/task.h"
#include "cli/terminal/attention_text.h"
#include "cli/terminal/steps_text.h"

namespace bertie::cli {
namespace {

std::optional<size_t> as_place(std::string_view text, size_t count) {
  size_t place = 0;
  if (!read_number(text, place) || place < 1 || place > count) return {};
  return place - 1;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower(uint8_t(c)));
  return out;
}

// The word in the middle: not a comma, not [SEP], unless there is nothing else.
size_t middle_word(const std::vector<std::string>& tokens) {
  const auto is_word = [](const std::string& token) {
    const auto byte = token.empty() ? uint8_t{0} : uint8_t(token.starts_with("##") ? token.back() : token[0]);
    return std::isalnum(byte) || byte >= 0x80;
  };
  const size_t middle = (tokens.size() - 1) / 2;
  for (size_t away = 0; away <= tokens.size() / 2; ++away) {
    if (middle + away < tokens.size() && is_word(tokens[middle + away])) return middle + away;
    if (away <= middle && is_word(tokens[middle - away])) return middle - away;
  }
  return middle;
}

// The token that --query names: by its place, as a label ("bank(3)"), or as a word, which the tokenizer may
// know under a lower-case name or in several pieces. Where it occurs again, its first place.
size_t find_query(const AttentionSteps& steps, const std::vector<std::string>& labels,
                  const std::string& query, const Tokenizer* tokenizer) {
  if (const auto place = as_place(query, steps.n())) return *place;
  for (size_t i = 0; i < steps.n(); ++i)
    if (query == labels[i] || query == steps.tokens[i]) return i;
  if (tokenizer) {
    const std::vector<int32_t> pieces = tokenizer->encode(query, {.add_special_tokens = false}).ids;
    const auto found = std::search(steps.ids.begin(), steps.ids.end(), pieces.begin(), pieces.end());
    if (!pieces.empty() && found != steps.ids.end()) return size_t(found - steps.ids.begin());
  } else {
    for (size_t i = 0; i < steps.n(); ++i)
      if (lower(query) == lower(steps.tokens[i])) return i;
  }
  throw Error(fmt::format("there is no token {} in the text", in_quotes(query)),
              fmt::format("a place from 1 to {}, or one of: {}", steps.n(),
                          cut(fmt::format("{}", fmt::join(labels, " ")), 120)),
              "query");
}

// "bank" stands twice, and one of them is worked out: how to get the other.
std::string other_places(const AttentionSteps& steps, size_t query) {
  std::vector<size_t> places;
  for (size_t i = 0; i < steps.n(); ++i)
    if (i != query && steps.tokens[i] == steps.tokens[query]) places.push_back(i + 1);
  if (places.empty()) return "";
  const size_t listed = std::min<size_t>(places.size(), 5);
  return fmt::format(" (also at {}{}: --query {})", fmt::join(std::span(places).first(listed), ", "),
                     listed < places.size() ? ", …" : "", places[0]);
}

bool is_empty(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special_tokens = false}).size() == 0;
}

AttentionSteps work(const Settings& settings, const std::string& text, const TextModel* model) {
  const WhichHead which{.layer = settings.layer.value_or(1) - 1, .head = settings.head.value_or(1) - 1};
  if (!model) {
    check_layer_and_head(settings, 1, 2, "the worked example");
    return explain_you_found_me(which.head);
  }
  const Config& config = model->model().config();
  check_layer_and_head(settings, config.depth(), config.heads, "this model");
  for (const std::string& each : {text, settings.pair.value_or(text)})
    if (is_empty(model->tokenizer(), each))
      throw Error("the text has no words, so there is nothing to explain", "a text with at least one word");
  return settings.pair ? explain(*model, text, *settings.pair, which) : explain(*model, text, which);
}

}  // namespace

int explain_command(const Settings& settings) {
  if (settings.json && settings.query)
    throw UsageError("--json gives the numbers of all tokens, so --query has no place", "leave --query out");
  if (settings.pair && settings.words.empty())
    throw UsageError("--pair is a second text, but there is no first",
                     "bertie explain \"You found me.\" --pair \"Where?\"");
  // $BERTIE_MODEL alone does not replace the example: it is what one asks for with no text.
  std::optional<TextModel> model;
  if (settings.model || !settings.words.empty()) model = load_model(settings);
  const std::string text =
      settings.words.empty() ? "You found me" : valid_text(settings, settings.words[0], "the text");
  const AttentionSteps steps = work(settings, text, model ? &*model : nullptr);
  if (settings.json) return print_json(steps, input_of(text, settings.pair)), 0;

  const std::vector<std::string> labels = unique_labels(printable_all(steps.tokens));
  size_t query = middle_word(steps.tokens);
  if (settings.query)
    query = find_query(steps, labels, *settings.query, model ? &model->tokenizer() : nullptr);

  const Style style = Style::for_output();
  const size_t width = output_width();
  const auto quoted = [](std::string_view t) { return '"' + cut(printable(t.substr(0, 1000)), 60) + '"'; };
  print("{}\n",
        style.bold(cut(quoted(text) + (settings.pair ? " and " + quoted(*settings.pair) : ""), width)));
  print(wrap(
      fmt::format("Self-attention step by step: {}head {} of {}, {} tokens of {} numbers, d_k = {}. Worked "
                  "out: \"{}\"{}. Digits are rounded; --json has them all.",
                  model ? fmt::format("layer {} of {}, ", steps.layer + 1, steps.layers) : "", steps.head + 1,
                  steps.heads, steps.n(), steps.x.cols, steps.q.cols, labels[query],
                  other_places(steps, query)),
      width));
  print(steps_text(steps, {.query = query}, style, width));
  if (model)
    print("\n{}",
          wrap("Then the layer adds X, normalizes, and goes through its feed-forward network.", width));
  else
    print("\nThe other head:  {}\nAnother word:    {}\nA real model:    {}\n",
          style.accent(steps.head == 0 ? "bertie explain --head 2 --query You" : "bertie explain"),
          style.accent(fmt::format("bertie explain --query {}", query == 2 ? "You" : "me")),
          style.accent("bertie explain \"You found me.\""));
  return 0;
}

}  // namespace bertie::cli
