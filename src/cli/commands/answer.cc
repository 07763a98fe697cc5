// bertie answer
#include <algorithm>
#include <array>

#include "bertie/utf8.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

Inputs inputs_of(const Settings& settings) {
  if (!settings.context) return Inputs(settings, kQuestionFields, TaskKind::kAnswer);
  const bool questions_from_input =
      settings.words.empty() &&
      (settings.files.empty() || std::count(settings.files.begin(), settings.files.end(), "-"));
  if (*settings.context == "-" && questions_from_input)
    throw UsageError("context and questions cannot both come from standard input",
                     "bertie answer --context - \"a question\"");
  return Inputs(settings, read_whole(*settings.context));
}

bool ends_sentence(std::string_view character) {
  return character == "." || character == "!" || character == "?" || character == "\n" || character == "。";
}

// The sentence around an answer, the answer marked; at most `width` columns or so.
std::string in_its_sentence(const CodePoints& context, Offset place, const Style& style, size_t width) {
  const auto reach = uint32_t(std::max<size_t>(width, 40) / 2 - 4);
  uint32_t begin = place.begin, end = place.end;
  while (begin > 0 && !ends_sentence(context.at({begin - 1, begin})) && place.begin - begin < reach) --begin;
  while (end < context.size() && !ends_sentence(context.at({end, end + 1})) && end - place.end < reach) ++end;
  const bool cut_before = begin > 0 && !ends_sentence(context.at({begin - 1, begin}));
  const bool cut_after = end < context.size() && !ends_sentence(context.at({end, end + 1}));
  if (end < context.size() && !cut_after) ++end;
  std::string before = printable(context.at({begin, place.begin}));
  before.erase(0, std::min(before.find_first_not_of(' '), before.size()));
  return (cut_before ? "…" : "") + before + style.paint("1;36", "«" + printable(context.at(place)) + "»") +
         printable(context.at({place.end, end})) + (cut_after ? "…" : "");
}

}  // namespace

int answer_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs = inputs_of(settings);
  const TextModel model = load_model(settings, Work::kAnswer);
  const Style style = Style::for_output();
  AnswerOptions usual{.top = settings.top.value_or(1),
                      .max_length = settings.max_length,
                      .stride = settings.stride,
                      .allow_no_answer = settings.may_be_empty};
  usual.max_answer_tokens = settings.max_answer.value_or(usual.max_answer_tokens);
  usual.max_question_tokens = settings.max_question.value_or(usual.max_question_tokens);
  const std::optional<TableWriter> table = table_output(settings);
  constexpr std::array<std::string_view, 6> kColumns = {"index", "question", "answer",
                                                        "score", "start",    "end"};
  ResultOutput output(settings, Work::kAnswer, table_front(settings, kColumns));
  size_t cut_questions = 0;
  const int code = for_each_input(
      settings, inputs,
      {.what = "questions", .where = output.where(), .results = output.kept(), .cut = &cut_questions}, model,
      [&](const TextModel& reader, std::span<const Input> block, const ProgressCallback& progress) {
        AnswerOptions options = usual;
        options.progress = progress;
        std::vector<Question> questions;
        for (const Input& input : block) questions.push_back({input.a, input.b});
        return reader.answer(questions, options);
      },
      [&](const Input& input, const Answering& result) {
        if (settings.json) return to_json(result, {.index = input.index, .question = input.a}) + "\n";
        std::string rows;
        if (!table) return rows;
        for (const Answer& a : result.answers) {
          TableWriter row = *table;
          row.field(input.index).field(input.a).field(a.text).field(a.score);
          rows += row.field(size_t(a.offset.begin)).field(size_t(a.offset.end)).take_row();
        }
        if (result.answers.empty()) {  // so that each question has a row
          TableWriter row = *table;
          rows += row.field(input.index).field(input.a).field("").field("").field("").field("").take_row();
        }
        return rows;
      },
      [&](const Input& input, const Answering& result, const std::string& rows) {
        cut_questions += result.question_truncated;
        if (table || settings.json) return output.put(rows);
        print("{}{}\n", input.index > 0 ? "\n" : "", style.bold(printable(input.a)));
        const CodePoints context(input.b);
        for (const Answer& a : result.answers) {
          print("{}  {}\n", percent(a.score),
                a.text.empty() ? style.dim("no answer in this text") : printable(a.text));
          if (!a.text.empty())
            print("{:8}{}\n", "",
                  in_its_sentence(context, a.offset, style,
                                  output_width() - std::min<size_t>(output_width(), 10)));
        }
        if (result.answers.empty()) print("{}\n", style.dim("  the context is empty"));
      });
  warn_if_cut(settings, cut_questions, inputs.count(), "questions", usual.max_question_tokens,
              "--max-question N");
  return code;
}

}  // namespace bertie::cli
