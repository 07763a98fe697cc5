// bertie next-sentence
#include "cli/task.h"

namespace bertie::cli {

int next_sentence_command(const Settings& settings) {
  Inputs inputs(settings, kPairFields);
  Pipeline pipeline = load_pipeline(settings, Head::kNextSentence);
  Progress progress = progress_of(settings, "pairs");
  const Style style = Style::for_output();
  const size_t width = std::max<size_t>(output_width(), 60);
  size_t cut_inputs = 0;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    const std::vector<float> scores = pipeline.next_sentence(pairs_of(block));
    cut_inputs += pipeline.truncated();
    for (size_t i = 0; i < block.size(); ++i) {
      const auto& [a, b] = block[i];
      if (settings.json) {
        std::string line = json_begin(first + i);
        json_field(line, "text", a);
        json_field(line, "text_pair", b);
        json_field(line, "is_next", scores[i]);
        print("{}}}\n", line);
        continue;
      }
      const std::string follows = style.bold(scores[i] >= 0.5f ? "follows" : "does not follow");
      print("{} {} {}  {}\n", percent(scores[i]), pad(bar(scores[i], 12), 12), follows,
            style.dim(cut(printable(a.substr(0, 400)), width / 3) + " / " +
                      cut(printable(b.substr(0, 400)), width / 3)));
    }
  });
  progress.finish(inputs.count());
  warn_if_cut(settings, pipeline, cut_inputs, inputs.count(), "pairs");
  return 0;
}

}  // namespace bertie::cli
