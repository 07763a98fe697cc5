// A WordPiece vocabulary from texts. Words are counted by several threads, block by block; the result does
// not depend on how many. Memory is bounded: where there are too many different words, the rarest are
// dropped.
#include <fmt/format.h>

#include <filesystem>

#include "bertie/data.h"
#include "bertie/error.h"
#include "core/in_order.h"
#include "core/parallel.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/model_file_names.h"
#include "text/models/word_piece_trainer.h"
#include "train/data/corpus.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kBlockBytes = size_t{2} << 20;  // of text that a thread takes at a time

struct TextBlock {
  std::string text;
  text::WordCounts counts;
  text::BertNormalized scratch;
};

// What transformers' BertTokenizerFast and Tokenizer::load look for beside vocab.txt.
std::string tokenizer_config(bool lowercase) {
  return fmt::format(R"({{
  "tokenizer_class": "BertTokenizer",
  "do_lower_case": {},
  "strip_accents": null,
  "tokenize_chinese_chars": true,
  "unk_token": "[UNK]",
  "sep_token": "[SEP]",
  "pad_token": "[PAD]",
  "cls_token": "[CLS]",
  "mask_token": "[MASK]"
}}
)",
                     lowercase);
}

// vocab.txt and the tokenizer_config.json beside it.
struct Files {
  fs::path vocabulary, config_file;
  std::string config;

  explicit Files(const VocabularyOptions& o)
      : vocabulary(o.out),
        config_file(o.out.parent_path() / io::kTokenizerConfigFile),
        config(tokenizer_config(o.lowercase)) {
    // Before the work, where a vocabulary or another model's settings would be lost.
    if (o.force || o.out.empty()) return;
    std::error_code error;
    const char* const hint = "`force` replaces it; or another `out`";
    if (fs::exists(vocabulary, error))
      throw Error(fmt::format("{} is there already", vocabulary.string()), hint, "out");
    if (fs::exists(config_file, error) && io::MappedFile(config_file).text() != config)
      throw Error(fmt::format("{} is there already, and of another tokenizer", config_file.string()), hint,
                  "out");
  }

  void write(const std::vector<std::string>& tokens) const {
    std::string lines;
    for (const std::string& token : tokens) lines += token, lines += '\n';
    std::error_code error;
    if (vocabulary.has_parent_path()) fs::create_directories(vocabulary.parent_path(), error);
    for (const auto& [path, text] : {std::pair(vocabulary, lines), std::pair(config_file, config)}) {
      io::AtomicFile file(path);
      file.write(text);
      file.commit();
    }
  }
};

}  // namespace

LearnedVocabulary learn_vocabulary(const VocabularyOptions& options) {
  const Files files(options);
  Corpus corpus(options.texts);
  const text::BertNormalizerSettings normalizer{.strip_accents = options.lowercase,
                                                .lowercase = options.lowercase};
  LearnedVocabulary learned;
  text::WordCounts counts;
  std::string document;
  const auto read = [&](TextBlock& block) {
    block.text.clear();
    while (block.text.size() < kBlockBytes && corpus.next(document)) {
      block.text += document;
      block.text += '\n';
    }
    if (options.texts.progress) options.texts.progress(corpus.done(), corpus.total(), learned.text_bytes);
    learned.text_bytes += block.text.size();
    return !block.text.empty();
  };
  const auto count = [&](TextBlock& block) {
    block.counts.clear();
    text::count_words(block.text, normalizer, block.scratch, block.counts);
  };
  const auto finish = [&](TextBlock& block) {
    counts.add(block.counts);
    for (uint64_t least = 2; counts.size() > options.max_words; ++least) {
      counts.drop_below(least);
      learned.dropped_below = std::max(learned.dropped_below, least);
    }
  };
  in_order<TextBlock>(options.threads > 0 ? options.threads : available_threads(), read, count, finish);
  learned.texts = corpus.report();
  counts.for_each([&](std::string_view, uint64_t n) { learned.words += n; });
  if (learned.words == 0) throw Error("there is no text in the inputs", "files with texts", "inputs");
  learned.different_words = counts.size();
  learned.tokens = text::train_word_pieces(counts, {.vocab_size = options.size,
                                                    .min_frequency = options.min_frequency,
                                                    .limit_alphabet = options.alphabet_limit});
  if (learned.tokens.size() > options.size)
    throw Error(fmt::format("the characters of these texts alone are {} tokens, more than {}",
                            learned.tokens.size(), options.size),
                fmt::format("`size` {} or more, or a smaller `alphabet_limit`", learned.tokens.size()),
                "size");
  if (!options.out.empty()) files.write(learned.tokens);
  return learned;
}

}  // namespace bertie
