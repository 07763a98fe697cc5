// bertie vocab
#include <fmt/format.h>

#include "bertie/json.h"
#include "cli/commands/data_texts.h"
#include "cli/output_file.h"

namespace bertie::cli {

int vocab_command(const Settings& settings) {
  if (settings.words.empty()) throw UsageError("vocab needs texts", "bertie vocab --out vocab.txt texts/");
  TextMeter meter(settings);
  VocabularyOptions options{.texts = text_options(settings, meter),
                            .out = settings.out.value_or("vocab.txt"),
                            .force = settings.force,
                            .lowercase = !settings.cased,
                            .threads = int(settings.threads.value_or(0))};
  if (settings.from) options.from.emplace(*settings.from);
  options.size = settings.size.value_or(options.size);
  options.min_frequency = settings.min_frequency.value_or(options.min_frequency);
  options.alphabet_limit = settings.alphabet_limit.value_or(options.alphabet_limit);
  for (const std::filesystem::path& out : {options.out, options.out.parent_path() / "tokenizer_config.json"})
    check_not_read(settings, out, settings.words);
  const LearnedVocabulary learned = learn_vocabulary(options);
  meter.finish(learned.text_bytes);

  if (learned.dropped_below > 0 && !settings.quiet)
    warn(fmt::format(
             "there were too many different words; some that occur fewer than {} times were not counted",
             learned.dropped_below),
         "a sample of the texts, or split them by language");
  const std::string out = options.out.string();
  if (settings.json) {
    print(to_json(learned, out, meter.seconds()) + "\n");
  } else {
    print("{}: {} tokens from {} words, {} of them different\n", out, with_commas(learned.tokens.size()),
          with_commas(learned.words), with_commas(learned.different_words));
  }
  return report_texts(learned.texts, settings);
}

}  // namespace bertie::cli
