// A WordPiece vocabulary from texts. Words are counted by several threads, block by block; the result does
// not depend on how many. Memory is bounded: where there are too many different words, the rarest are
// dropped.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "bertie/data.h"
#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "core/in_order.h"
#include "core/parallel.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/model_file_names.h"
#include "text/models/word_piece_trainer.h"
#include "text/unicode/unicode.h"
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

  Files(const VocabularyOptions& o, bool lowercase)
      : vocabulary(o.out),
        config_file(o.out.parent_path() / io::kTokenizerConfigFile),
        config(tokenizer_config(lowercase)) {
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

std::optional<Tokenizer> tokenizer_of(const std::optional<ModelFiles>& files) {
  if (!files) return {};
  Tokenizer tokenizer = Tokenizer::load(*files);
  if (tokenizer.kind() != "WordPiece")
    throw Error(fmt::format("{} has a {} vocabulary; tokens are taken from WordPiece's", files->name(),
                            tokenizer.kind()),
                "a BERT or a DistilBERT", "from");
  return tokenizer;
}

// Whether a token is one of these characters, at a word's beginning or further on.
bool is_one_of(const std::set<uint32_t>& characters, std::string_view token) {
  if (token.starts_with("##")) token.remove_prefix(2);
  if (token.empty()) return false;
  const auto [point, length] = text::decode_utf8(token.data(), token.data() + token.size());
  return size_t(length) == token.size() && characters.contains(point);
}

// Of a vocabulary the special tokens, the characters that occur (without these a rare word could not be
// spelled), and then what is needed most; in the order that they had.
std::vector<std::string> needed_tokens(const text::WordCounts& counts, const Tokenizer& tokenizer,
                                       size_t size) {
  std::vector<uint64_t> needed(tokenizer.vocab_size());
  std::set<uint32_t> characters;
  counts.for_each([&](std::string_view word, uint64_t count) {
    for (const int32_t id : tokenizer.encode(word, {.add_special_tokens = false}).ids)
      needed[size_t(id)] += count;
    text::for_each_point(word, [&](uint32_t point) { characters.insert(point); });
  });
  std::vector<int32_t> kept, others;
  const int32_t special[] = {tokenizer.pad_id(), tokenizer.unk_id(), tokenizer.cls_id(), tokenizer.sep_id(),
                             tokenizer.mask_id()};
  for (int32_t id = 0; id < int32_t(needed.size()); ++id) {
    if (std::ranges::find(special, id) != std::end(special)) continue;
    if (is_one_of(characters, tokenizer.token(id)))
      kept.push_back(id);
    else if (needed[size_t(id)] > 0)
      others.push_back(id);
  }
  const size_t least = std::size(special) + kept.size();
  if (least > size)
    throw Error(fmt::format("the characters of these texts alone are {} tokens, more than {}", least, size),
                fmt::format("`size` {} or more", least), "size");
  std::ranges::stable_sort(others, std::greater(), [&](int32_t id) { return needed[size_t(id)]; });
  others.resize(std::min(others.size(), size - least));
  kept.insert(kept.end(), others.begin(), others.end());
  std::ranges::sort(kept);
  std::vector<std::string> tokens;
  for (const int32_t id : special) tokens.emplace_back(tokenizer.token(id));
  for (const int32_t id : kept) tokens.emplace_back(tokenizer.token(id));
  return tokens;
}

}  // namespace

LearnedVocabulary learn_vocabulary(const VocabularyOptions& options) {
  const std::optional<Tokenizer> from = tokenizer_of(options.from);
  const bool lowercase = from ? from->lowercase() : options.lowercase;
  const Files files(options, lowercase);
  Corpus corpus(options.texts);
  const text::BertNormalizerSettings normalizer{.strip_accents = lowercase, .lowercase = lowercase};
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
  if (from) {
    learned.tokens = needed_tokens(counts, *from, options.size);
    if (!options.out.empty()) files.write(learned.tokens);
    return learned;
  }
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
