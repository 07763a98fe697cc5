// bertie vocab
#include <fmt/format.h>

#include <filesystem>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json.h"
#include "train/learn_vocabulary.h"

namespace bertie::cli {
namespace {

void write_file(const std::filesystem::path& path, std::string_view text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Error, before the work, where a vocabulary or another model's settings would be lost.
void check_free(const std::filesystem::path& out, const std::filesystem::path& beside,
                std::string_view config) {
  std::error_code error;
  const char* const hint = "--force replaces it; or another file with --out";
  if (std::filesystem::exists(out, error))
    throw Error(fmt::format("{} is there already", out.string()), hint);
  if (std::filesystem::exists(beside, error) && io::MappedFile(beside).text() != config)
    throw Error(fmt::format("{} is there already, and of another tokenizer", beside.string()), hint);
}

}  // namespace

int vocab_command(const Settings& settings) {
  if (settings.words.empty()) throw UsageError("vocab needs texts", "bertie vocab --out vocab.txt texts/");
  const std::filesystem::path out = settings.out.value_or("vocab.txt"),
                              beside = out.parent_path() / "tokenizer_config.json";
  // What transformers' BertTokenizerFast and Tokenizer::load look for beside it.
  const nlohmann::ordered_json config = {{"tokenizer_class", "BertTokenizer"},
                                         {"do_lower_case", !settings.cased},
                                         {"strip_accents", nullptr},
                                         {"tokenize_chinese_chars", true},
                                         {"unk_token", "[UNK]"},
                                         {"sep_token", "[SEP]"},
                                         {"pad_token", "[PAD]"},
                                         {"cls_token", "[CLS]"},
                                         {"mask_token", "[MASK]"}};
  const std::string config_text = config.dump(2) + "\n";
  if (!settings.force) check_free(out, beside, config_text);
  VocabularyOptions options{.corpus = {.inputs = settings.words,
                                       .field = settings.field.value_or(""),
                                       .warn = corpus_warning(settings)},
                            .lowercase = !settings.cased,
                            .threads = int(settings.threads.value_or(0))};
  options.training.vocab_size = settings.size.value_or(options.training.vocab_size);
  options.training.min_frequency = settings.min_frequency.value_or(options.training.min_frequency);
  options.training.limit_alphabet = settings.alphabet_limit.value_or(options.training.limit_alphabet);
  TextMeter meter(settings);
  options.progress = std::ref(meter);
  const LearntVocabulary learnt = learn_vocabulary(options);
  meter.finish(learnt.text_bytes);

  if (out.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(out.parent_path(), error);
  }
  std::string lines;
  for (const std::string& token : learnt.tokens) lines += token, lines += '\n';
  write_file(out, lines);
  write_file(beside, config_text);

  if (learnt.forgotten_below > 0 && !settings.quiet)
    warn(fmt::format(
             "there were too many different words; some met fewer than {} times were forgotten on the way",
             learnt.forgotten_below),
         "a sample of the texts, or split them by language");
  if (settings.json) {
    const nlohmann::ordered_json report = {{"out", out.string()},
                                           {"tokens", learnt.tokens.size()},
                                           {"words", learnt.words},
                                           {"different_words", learnt.different_words},
                                           {"text_bytes", learnt.text_bytes},
                                           {"seconds", meter.seconds()}};
    print("{}\n", report.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print("{}: {} tokens from {} words, {} of them different\n", out.string(),
          with_commas(learnt.tokens.size()), with_commas(learnt.words), with_commas(learnt.different_words));
  }
  return 0;
}

}  // namespace bertie::cli
