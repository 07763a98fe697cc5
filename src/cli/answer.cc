// bertie answer
#include <algorithm>

#include "cli/task.h"
#include "tasks/code_points.h"

namespace bertie::cli {
namespace {

Inputs inputs_of(const Settings& settings) {
  if (!settings.context) return Inputs(settings, kQuestionFields);
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

int answer_command(const Settings& settings) {
  Inputs inputs = inputs_of(settings);
  const TextModel model = load_model(settings, Head::kAnswer);
  Progress progress = progress_of(settings, "questions");
  const Style style = Style::for_output();
  AnswerOptions options{.top = settings.top.value_or(1),
                        .max_length = settings.max_length,
                        .stride = settings.stride,
                        .allow_no_answer = settings.may_be_empty};
  options.max_answer_tokens = settings.max_answer.value_or(options.max_answer_tokens);
  options.max_question_tokens = settings.max_question.value_or(options.max_question_tokens);
  size_t cut_questions = 0;
  std::vector<Question> questions;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    questions.clear();
    for (const Input& input : block) questions.push_back({input.a, input.b});
    const std::vector<Answering> results = model.answer(questions, options);
    for (size_t i = 0; i < block.size(); ++i) {
      cut_questions += results[i].question_truncated;
      if (settings.json) {
        print(to_json(results[i], {.index = first + i, .question = block[i].a}) + "\n");
        continue;
      }
      print("{}{}\n", first + i > 0 ? "\n" : "", style.bold(printable(block[i].a)));
      const CodePoints context(block[i].b);
      for (const Answer& a : results[i].answers) {
        print("{}  {}\n", percent(a.score),
              a.text.empty() ? style.dim("no answer in this text") : printable(a.text));
        if (!a.text.empty())
          print("{:8}{}\n", "",
                in_its_sentence(context, a.offset, style,
                                output_width() - std::min<size_t>(output_width(), 10)));
      }
      if (results[i].answers.empty()) print("{}\n", style.dim("  the context is empty"));
    }
  });
  progress.finish(inputs.count());
  if (cut_questions > 0 && !settings.quiet)
    warn(fmt::format("{} of {} questions had more than {} tokens and were cut", cut_questions, inputs.count(),
                     options.max_question_tokens),
         "--max-question N");
  return 0;
}

}  // namespace bertie::cli
