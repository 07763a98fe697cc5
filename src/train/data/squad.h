#pragma once
// SQuAD's JSON, 1.1 and 2.0, and questions as JSON objects, as Hugging Face's datasets have them.
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bertie/dataset.h"

namespace bertie {

// Whether a text begins as SQuAD's files do: one object with "data" in it, or one that ends later than
// `sample`.
bool looks_like_squad(std::string_view sample);

enum class SquadAnswers {
  kNeeded,
  kTexts,  // needed, but they may stand elsewhere than they say: for scoring, which looks at their texts
           // alone
  kOptional,
  kIgnored,  // what is wrong with them does not matter
};

// Called with each question in the order of the file, and why it cannot be used.
using OnQuestion = std::function<void(SquadQuestion& question, const std::optional<Error>& problem)>;
struct SquadSummary {
  std::string version;
  bool has_answers = false;  // some question has the key
};
// Throws Error where the text is not JSON; `name` is the file's.
SquadSummary read_squad(std::string_view text, const std::string& name, SquadAnswers answers,
                        const OnQuestion& on_question);

// The answers of a JSON value: {"text": [...], "answer_start": [...]} or [{"text": …, "answer_start": …}, …].
// Throws Error.
std::vector<SquadQuestion::Answer> answers_in_json(const nlohmann::json& answers);

// Checks that each answer stands in the context where it says. One that differs in white space alone becomes
// what the context says there, so that a place and a text always are a span. Throws Error.
void check_answers(SquadQuestion& question);

}  // namespace bertie
