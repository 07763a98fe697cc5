// bertie generate
#include "cli/task.h"

namespace bertie::cli {
namespace {

GenerateOptions options_of(const Settings& settings) {
  GenerateOptions options;
  options.max_new_tokens = settings.max_new_tokens.value_or(options.max_new_tokens);
  // Whoever asks for drawing means drawing.
  const bool draws = settings.top_k || settings.top_p || settings.seed;
  options.temperature = settings.temperature.value_or(draws ? 1 : 0);
  options.top_k = settings.top_k.value_or(0);
  options.top_p = settings.top_p.value_or(1);
  options.repetition_penalty = settings.repetition_penalty.value_or(1);
  options.seed = settings.seed.value_or(options.seed);
  return options;
}

// Text for people, with its line ends.
std::string readable(std::string_view text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += printable(text.substr(begin, end - begin));
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace

int generate_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings);
  GenerateOptions usual = options_of(settings);
  const TextModel model = load_model(settings, Work::kWrite);
  const Style style = Style::for_output();
  if (!settings.json)
    usual.on_text = [](std::string_view text) {
      print(readable(text));
      flush_output();
      return true;
    };
  ResultOutput output(settings, Work::kWrite);
  size_t full = 0, cut_prompts = 0;
  // For programs many go on together; a reader sees one grow after the other.
  const int code = for_each_input(
      settings, inputs,
      {.most = settings.json ? ForEach{}.most : 1,
       .where = output.where(),
       .results = output.kept(),
       .cut = &cut_prompts},
      model,
      [&](const TextModel& writer, std::span<const Input> block, const ProgressCallback& progress) {
        GenerateOptions options = usual;
        options.progress = progress;
        if (settings.json || block.empty()) return writer.generate(texts_of(block), options);
        print("{}{}", block[0].index > 0 ? "\n" : "", style.dim(readable(block[0].a)));
        return std::vector{writer.generate(block[0].a, options)};
      },
      [&](const Input& input, const Generation& made) {
        return settings.json ? to_json(made, input_of(input)) + "\n" : "\n";
      },
      [&](const Input&, const Generation& made, const std::string& row) {
        output.put(row);
        full += made.finish_reason == FinishReason::kModelLength;
        cut_prompts += made.prompt_truncated > 0;
      });
  if (full > 0 && !settings.quiet)
    warn(fmt::format("{} of {} texts stopped at the {} tokens that this model can read", full, inputs.count(),
                     model.task_max_length()),
         "a shorter prompt, or fewer --max-new-tokens");
  warn_if_cut(settings, cut_prompts, inputs.count(), "prompts", model.task_max_length(),
              "a shorter prompt: of a long one the end is read");
  return code;
}

}  // namespace bertie::cli
