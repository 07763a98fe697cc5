#pragma once
// Shards whose tokens tell where they stand: token i of the corpus has the id first_id + i, so that a test
// can say of any sequence which sentences of which documents it took.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "bertie/tokenizer.h"
#include "core/random.h"
#include "support/temp_folder.h"
#include "train/data/shard_folder.h"

namespace bertie::test {

class MadeUpShards {
 public:
  struct Shape {
    size_t documents = 200, max_sentences = 20, max_tokens = 30, shards = 3;
    Part part = Part::kTrain;
  };
  static constexpr int32_t kFirstId = 5;

  explicit MadeUpShards(const Shape& shape) : tokenizer_(make(shape)) {}
  MadeUpShards() : MadeUpShards(Shape{}) {}

  const std::filesystem::path& folder() const { return folder_.path(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  size_t tokens() const { return document_of_.size(); }
  size_t documents() const { return documents_; }
  // Of the token with this id.
  size_t document(int32_t id) const { return document_of_.at(size_t(id - kFirstId)); }
  size_t sentence(int32_t id) const { return sentence_of_.at(size_t(id - kFirstId)); }

 private:
  Tokenizer make(const Shape& shape) {
    Random random(11);
    std::vector<std::vector<std::vector<uint32_t>>> shards(shape.shards);  // lengths of sentences
    for (size_t s = 0; s < shape.shards; ++s)
      for (size_t d = 0; d < (shape.documents + shape.shards - 1 - s) / shape.shards; ++d) {
        auto& document = shards[s].emplace_back(1 + random.below(uint32_t(shape.max_sentences)));
        for (uint32_t& length : document) length = 1 + random.below(uint32_t(shape.max_tokens));
      }
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    std::vector<std::vector<int32_t>> texts;
    size_t sentence = 0;
    for (const auto& shard : shards)
      for (const auto& document : shard) {
        for (uint32_t length : document) {
          document_of_.insert(document_of_.end(), length, documents_);
          sentence_of_.insert(sentence_of_.end(), length, sentence++);
        }
        ++documents_;
      }
    for (size_t i = 0; i < tokens(); ++i) vocab += fmt::format("t{}\n", i);
    Tokenizer tokenizer = Tokenizer::from_vocab_text(vocab);
    ShardBuilder builder(shape.part, fingerprint_of(tokenizer), tokenizer.vocab_size());
    int32_t next = kFirstId;
    for (const auto& shard : shards) {
      for (const auto& document : shard) {
        std::vector<int32_t> ids;
        for (uint32_t length : document)
          for (uint32_t i = 0; i < length; ++i) ids.push_back(next++);
        builder.add(
            {.sentences = document, .tokens = ids, .unknown = 0, .text_bytes = 1, .text_checksum = 1});
      }
      builder.write(folder_.path());
    }
    ShardManifest manifest{.complete = true};
    for (size_t s = 0; s < shape.shards; ++s) {
      const auto path = folder_.path() / shard_name(shape.part, s);
      add(Shard(path).header(), std::filesystem::file_size(path),
          shape.part == Part::kTrain ? manifest.train : manifest.held_out);
    }
    folder_.write(ShardManifest::kName, manifest.text());
    return tokenizer;
  }

  TempFolder folder_;
  std::vector<size_t> document_of_, sentence_of_;
  size_t documents_ = 0;
  Tokenizer tokenizer_;
};

// Whether `hits` of `draws` are what chance `p` gives, within 3 standard deviations.
inline bool within_three_sigma(double hits, double draws, double p) {
  return std::abs(hits - draws * p) <= 3 * std::sqrt(draws * p * (1 - p));
}
// The same for counts that should all be alike: chi-squared has mean n - 1 and variance 2(n - 1).
inline bool is_uniform(const std::vector<size_t>& counts) {
  double sum = 0, chi = 0;
  for (size_t c : counts) sum += double(c);
  const double mean = sum / double(counts.size()), freedom = double(counts.size()) - 1;
  for (size_t c : counts) chi += (double(c) - mean) * (double(c) - mean) / mean;
  return std::abs(chi - freedom) <= 3 * std::sqrt(2 * freedom);
}

}  // namespace bertie::test
