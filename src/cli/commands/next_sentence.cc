// bertie next-sentence
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {

int next_sentence_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings, kPairFields);
  const TextModel model = load_model(settings, Work::kNextSentence);
  const Style style = Style::for_output();
  constexpr size_t kBeforeTexts = 37, kBetween = 3;
  const size_t width = (std::max<size_t>(output_width(), 60) - kBeforeTexts - kBetween) / 2;
  ResultOutput output(settings, Work::kNextSentence);
  size_t cut_inputs = 0;
  const int code = for_each_input(
      settings, inputs,
      {.what = "pairs", .where = output.where(), .results = output.kept(), .cut = &cut_inputs}, model,
      [&](const TextModel& reader, std::span<const Input> block, const ProgressCallback& progress) {
        return reader.next_sentence(pairs_of(block), {.progress = progress});
      },
      [&](const Input& input, const NextSentence& result) {
        return settings.json ? to_json(result, input_of(input, true)) + "\n" : std::string();
      },
      [&](const Input& input, const NextSentence& result, const std::string& json) {
        cut_inputs += result.truncated;
        if (settings.json) return output.put(json);
        const bool is_next = result.is_next >= 0.5f;
        const float score = is_next ? result.is_next : 1 - result.is_next;
        const std::string follows = style.bold(pad(is_next ? "follows" : "does not follow", 15));
        print("{} {} {}  {}\n", percent(score), pad(bar(score, 12), 12), follows,
              style.dim(cut(printable(input.a.substr(0, 400)), width) + " / " +
                        cut(printable(input.b.substr(0, 400)), width)));
      });
  warn_if_cut(settings, model, cut_inputs, inputs.count(), "pairs");
  return code;
}

}  // namespace bertie::cli
