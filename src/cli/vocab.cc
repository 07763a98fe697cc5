// bertie vocab
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bertie/data.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace bertie::cli {

int vocab_command(const Settings& settings) {
  if (settings.words.empty()) throw UsageError("vocab needs texts", "bertie vocab --out vocab.txt texts/");
  TextMeter meter(settings);
  VocabularyOptions options{.texts = text_options(settings, meter),
                            .out = settings.out.value_or("vocab.txt"),
                            .force = settings.force,
                            .lowercase = !settings.cased,
                            .threads = int(settings.threads.value_or(0))};
  options.size = settings.size.value_or(options.size);
  options.min_frequency = settings.min_frequency.value_or(options.min_frequency);
  options.alphabet_limit = settings.alphabet_limit.value_or(options.alphabet_limit);
  const LearnedVocabulary learned = learn_vocabulary(options);
  meter.finish(learned.text_bytes);

  if (learned.dropped_below > 0 && !settings.quiet)
    warn(fmt::format("there were too many different words; some that occur fewer than {} times were not counted",
                     learned.dropped_below),
         "a sample of the texts, or split them by language");
  const std::string out = options.out.string();
  if (settings.json) {
    nlohmann::ordered_json report = {{"out", out},
                                     {"tokens", learned.tokens.size()},
                                     {"words", learned.words},
                                     {"different_words", learned.different_words},
                                     {"text_bytes", learned.text_bytes},
                                     {"seconds", meter.seconds()}};
    add_text_report(learned.texts, report);
    print("{}\n", report.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print("{}: {} tokens from {} words, {} of them different\n", out, with_commas(learned.tokens.size()),
          with_commas(learned.words), with_commas(learned.different_words));
  }
  return report_texts(learned.texts, settings);
}

}  // namespace bertie::cli
