#include "train/learn_vocabulary.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "core/in_order.h"
#include "core/parallel.h"

namespace bertie {
namespace {

constexpr size_t kBlockBytes = size_t{2} << 20;  // of text that a thread takes at a time

struct Block {
  std::string text;
  text::WordCounts counts;
  text::BertNormalized scratch;
};

}  // namespace

LearntVocabulary learn_vocabulary(const VocabularyOptions& options) {
  Corpus corpus(options.corpus);
  const text::BertNormalizerSettings normalizer{.strip_accents = options.lowercase,
                                                .lowercase = options.lowercase};
  LearntVocabulary learnt;
  text::WordCounts counts;
  std::string document;
  const auto read = [&](Block& block) {
    block.text.clear();
    while (block.text.size() < kBlockBytes && corpus.next(document)) {
      block.text += document;
      block.text += '\n';
    }
    if (options.progress) options.progress(corpus.done(), corpus.total(), learnt.text_bytes);
    learnt.text_bytes += block.text.size();
    return !block.text.empty();
  };
  const auto count = [&](Block& block) {
    block.counts.clear();
    text::count_words(block.text, normalizer, block.scratch, block.counts);
  };
  const auto finish = [&](Block& block) {
    counts.add(block.counts);
    for (uint64_t least = 2; counts.size() > options.max_words; ++least) {
      counts.drop_below(least);
      learnt.forgotten_below = std::max(learnt.forgotten_below, least);
    }
  };
  in_order<Block>(options.threads > 0 ? options.threads : available_threads(), read, count, finish);
  counts.for_each([&](std::string_view, uint64_t n) { learnt.words += n; });
  if (learnt.words == 0) throw Error("there is no text in what was given", "name files with texts");
  learnt.different_words = counts.size();
  learnt.tokens = text::train_word_pieces(counts, options.training);
  if (learnt.tokens.size() > options.training.vocab_size)
    throw Error(fmt::format("the characters of these texts alone are {} tokens, more than {}",
                            learnt.tokens.size(), options.training.vocab_size),
                fmt::format("--size {} or more, or keep fewer characters with --alphabet-limit",
                            learnt.tokens.size()));
  return learnt;
}

}  // namespace bertie
