#include "train/data/squad.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bertie/error.h"
#include "io/json.h"
#include "io/quote.h"
#include "io/table.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

constexpr size_t kMaxSquadBytes = size_t{512} << 20;
constexpr const char* kPlaces = "answer_start counts characters (code points) of the context from 0";

// From the root: data [ article { paragraphs [ paragraph { context, qas [ question { answers [ answer ] } ] }
// ] } ].
enum class Level {
  kFile,
  kData,
  kArticle,
  kParagraphs,
  kParagraph,
  kQuestions,
  kQuestion,
  kAnswers,
  kAnswer,
  kOther
};

// The level inside a value that begins here, by the key it has.
Level inside(Level level, std::string_view key, bool array) {
  switch (level) {
    case Level::kFile:
      return key == "data" && array ? Level::kData : Level::kOther;
    case Level::kData:
      return array ? Level::kOther : Level::kArticle;
    case Level::kArticle:
      return key == "paragraphs" && array ? Level::kParagraphs : Level::kOther;
    case Level::kParagraphs:
      return array ? Level::kOther : Level::kParagraph;
    case Level::kParagraph:
      return key == "qas" && array ? Level::kQuestions : Level::kOther;
    case Level::kQuestions:
      return array ? Level::kOther : Level::kQuestion;
    case Level::kQuestion:
      return key == "answers" && array ? Level::kAnswers : Level::kOther;
    case Level::kAnswers:
      return array ? Level::kOther : Level::kAnswer;
    case Level::kAnswer:
    case Level::kOther:
      break;
  }
  return Level::kOther;
}

struct SquadHandler : io::JsonHandler {
  struct Pending {
    SquadQuestion question;
    std::optional<Error> problem;
    bool has_question = false, has_answers = false, impossible = false;
  };

  const OnQuestion* on_question = nullptr;
  SquadAnswers answers = SquadAnswers::kNeeded;
  SquadSummary summary;
  bool has_data = false;
  size_t count = 0;

  void key(std::string& k) { key_ = std::move(k); }
  void null() {}
  void boolean(bool value) {
    if (at(Level::kQuestion, "is_impossible")) pending().impossible = value;
  }
  void integer(int64_t) {
    if (at(Level::kAnswer, "answer_start")) start_ = {};
  }
  void whole(uint64_t value) {
    if (at(Level::kAnswer, "answer_start")) start_ = size_t(value);
  }
  void real(double) {}
  void string(std::string& value) {
    if (at(Level::kFile, "version")) summary.version = std::move(value);
    if (at(Level::kParagraph, "context")) context_ = std::move(value);
    if (at(Level::kQuestion, "id")) pending().question.id = std::move(value);
    if (at(Level::kQuestion, "question"))
      pending().question.question = std::move(value), pending().has_question = true;
    if (at(Level::kAnswer, "text")) text_ = std::move(value);
  }
  void begin_object() { enter(false); }
  void begin_array() { enter(true); }
  void end_object() { leave(); }
  void end_array() { leave(); }

 private:
  bool at(Level level, std::string_view key) const {
    return !levels_.empty() && levels_.back() == level && key_ == key;
  }
  Pending& pending() { return questions_.back(); }

  void enter(bool array) {
    const Level level =
        levels_.empty() ? (array ? Level::kOther : Level::kFile) : inside(levels_.back(), key_, array);
    levels_.push_back(level);
    if (level == Level::kData) has_data = true;
    if (level == Level::kParagraph) context_.reset(), questions_.clear();
    if (level == Level::kQuestion) questions_.emplace_back();
    if (level == Level::kAnswers) pending().has_answers = summary.has_answers = true;
    if (level == Level::kAnswer) start_.reset(), text_.reset();
    key_.clear();
  }

  void leave() {
    const Level level = levels_.back();
    levels_.pop_back();
    key_.clear();
    if (level == Level::kAnswer) {
      if (text_ && start_)
        pending().question.answers.push_back({std::move(*text_), *start_});
      else if (!pending().problem)
        pending().problem.emplace("an answer has no text or no answer_start", kPlaces);
    }
    if (level != Level::kParagraph) return;
    for (Pending& p : questions_) finish(p);
    questions_.clear();
  }

  void finish(Pending& p) {
    ++count;
    if (p.question.id.empty()) p.question.id = std::to_string(count);
    if (p.impossible) p.question.answers.clear(), p.problem.reset();
    try {
      if (!p.has_question) throw Error("there is no \"question\"");
      if (!context_) throw Error("its paragraph has no \"context\"");
      if (answers == SquadAnswers::kIgnored) p.question.answers.clear(), p.problem.reset();
      const bool needed = answers == SquadAnswers::kNeeded || answers == SquadAnswers::kTexts;
      if (needed && !p.has_answers && !p.impossible) throw Error("there are no \"answers\"");
      if (p.problem) throw Error(*p.problem);
      p.question.context = *context_;
      if (answers != SquadAnswers::kTexts) check_answers(p.question);
    } catch (const Error& error) {
      p.problem = error;
    }
    (*on_question)(p.question, p.problem);
  }

  std::vector<Level> levels_;
  std::string key_;
  std::optional<std::string> context_, text_;
  std::optional<size_t> start_;
  std::vector<Pending> questions_;  // of a paragraph, whose context may come after them
};

// Where code point number `place` begins; npos past the end.
size_t byte_of(std::string_view text, size_t place) {
  const char *p = text.data(), *end = p + text.size();
  for (; place > 0 && p < end; --place) p += text::decode_utf8(p, end).length;
  return place > 0 ? text.npos : size_t(p - text.data());
}

// How many bytes the context has of this answer at its beginning, white space aside; npos: it is not there.
size_t matched(std::string_view context, std::string_view answer) {
  const size_t all = context.size();
  answer.remove_prefix(text::leading_whitespace(answer));
  while (true) {
    const size_t spaces = text::leading_whitespace(answer), there = text::leading_whitespace(context);
    answer.remove_prefix(spaces);
    if (answer.empty()) return all - context.size();
    if ((spaces > 0) != (there > 0)) return context.npos;
    context.remove_prefix(there);
    const size_t word = text::leading_run(answer, [](uint32_t point) { return !text::is_whitespace(point); });
    if (!context.starts_with(answer.substr(0, word))) return context.npos;
    context.remove_prefix(word), answer.remove_prefix(word);
  }
}

}  // namespace

bool looks_like_squad(std::string_view sample) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const auto skip = [&](size_t at) { return std::min(sample.find_first_not_of(kSpaces, at), sample.size()); };
  size_t at = skip(0);
  if (at == sample.size() || sample[at] != '{') return false;
  for (at = skip(at + 1); at < sample.size() && sample[at] == '"';) {
    const size_t key = io::json_value_end(sample.substr(at));
    if (key == sample.npos) return true;
    const bool is_data = sample.substr(at, key) == "\"data\"";
    at = skip(at + key);
    if (at == sample.size()) return true;
    if (sample[at] != ':') return false;
    at = skip(at + 1);
    if (is_data) return true;
    const size_t value = io::json_value_end(sample.substr(at));
    if (value == sample.npos) return true;
    at = skip(at + value);
    if (at == sample.size() || sample[at] != ',') return false;
    at = skip(at + 1);
  }
  return false;
}

SquadSummary read_squad(std::string_view text, const std::string& name, SquadAnswers answers,
                        const OnQuestion& on_question) {
  SquadHandler handler;
  handler.name = name;
  handler.on_question = &on_question;
  handler.answers = answers;
  io::read_json(text, name, handler, {.bytes = kMaxSquadBytes});
  if (!handler.has_data)
    throw Error(fmt::format("{}: there is no list \"data\" of articles, as SQuAD has it", name),
                "questions are SQuAD's JSON, or JSON lines with \"question\", \"context\" and \"answers\"");
  return std::move(handler.summary);
}

std::vector<SquadQuestion::Answer> answers_in_json(const nlohmann::json& answers) {
  std::vector<SquadQuestion::Answer> all;
  const auto add = [&](const nlohmann::json& text, const nlohmann::json& start) {
    if (!text.is_string() || !start.is_number_unsigned())
      throw Error("an answer's \"text\" is not a string, or its \"answer_start\" is no place", kPlaces);
    all.push_back({text.get<std::string>(), start.get<size_t>()});
  };
  if (answers.is_array()) {
    for (const nlohmann::json& answer : answers) {
      if (!answer.is_object() || !answer.contains("text") || !answer.contains("answer_start"))
        throw Error("an answer has no \"text\" or no \"answer_start\"", kPlaces);
      add(answer["text"], answer["answer_start"]);
    }
    return all;
  }
  if (!answers.is_object() || !answers.contains("text") || !answers.contains("answer_start") ||
      !answers["text"].is_array() || !answers["answer_start"].is_array() ||
      answers["text"].size() != answers["answer_start"].size())
    throw Error("\"answers\" are not {\"text\": […], \"answer_start\": […]} of the same length", kPlaces);
  for (size_t i = 0; i < answers["text"].size(); ++i) add(answers["text"][i], answers["answer_start"][i]);
  return all;
}

void check_answers(SquadQuestion& question) {
  for (SquadQuestion::Answer& answer : question.answers) {
    if (text::leading_whitespace(answer.text) == answer.text.size())
      throw Error("an answer is empty", "a question without an answer has an empty list of them");
    const std::string_view context = question.context;
    const size_t begin = byte_of(context, answer.start);
    if (begin == context.npos)
      throw Error(fmt::format("the answer {} is at {}, past the end of its context", io::quote(answer.text),
                              answer.start),
                  kPlaces);
    const std::string_view there = context.substr(begin);
    if (there.starts_with(answer.text)) continue;
    const size_t bytes = matched(there, answer.text);
    if (bytes == there.npos) {
      size_t shown = std::min(std::max<size_t>(answer.text.size(), 8), there.size());
      while (shown < there.size() && text::is_continuation(there[shown])) ++shown;
      throw Error(fmt::format("the answer {} is not at {} of its context, which says {} there",
                              io::quote(answer.text), answer.start, io::quote(there.substr(0, shown))),
                  kPlaces);
    }
    answer.text = there.substr(0, bytes);
  }
}

}  // namespace bertie
