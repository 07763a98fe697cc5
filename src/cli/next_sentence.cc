// bertie next-sentence
#include "cli/task.h"

namespace bertie::cli {

int next_sentence_command(const Settings& settings) {
  Inputs inputs(settings, kPairFields);
  const TextModel model = load_model(settings, Head::kNextSentence);
  Progress progress = progress_of(settings, "pairs");
  const Style style = Style::for_output();
  const size_t width = std::max<size_t>(output_width(), 60);
  size_t cut_inputs = 0;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    const std::vector<NextSentence> results = model.next_sentence(pairs_of(block));
    for (size_t i = 0; i < block.size(); ++i) {
      const auto& [a, b] = block[i];
      cut_inputs += results[i].truncated;
      if (settings.json) {
        print(to_json(results[i], input_of(first + i, block[i], true)) + "\n");
        continue;
      }
      const float score = results[i].is_next;
      const std::string follows = style.bold(score >= 0.5f ? "follows" : "does not follow");
      print("{} {} {}  {}\n", percent(score), pad(bar(score, 12), 12), follows,
            style.dim(cut(printable(a.substr(0, 400)), width / 3) + " / " +
                      cut(printable(b.substr(0, 400)), width / 3)));
    }
  });
  progress.finish(inputs.count());
  warn_if_cut(settings, model, cut_inputs, inputs.count(), "pairs");
  return 0;
}

}  // namespace bertie::cli
