#include "train/baselines/bilstm_learning.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/cross_entropy.h"
#include "kernels/optimize.h"
#include "kernels/softmax.h"
#include "train/baselines/bilstm.h"
#include "train/baselines/words.h"

namespace bertie::baseline {
namespace {

// Of a text, which is cut as BERT's is; of a sentence to tag, which goes in parts.
constexpr size_t kMostWords = 512;
constexpr double kRate = 2e-3;  // of the first step; falls to 0
constexpr double kClip = 1;     // largest norm of the gradient
constexpr float kDropout = 0.3f;

// Some 200,000 rows are seen.
size_t epochs_for(size_t rows) {
  return size_t(std::clamp(std::round(200'000 / double(std::max<size_t>(rows, 1))), 4.0, 20.0));
}

// 32; of few rows fewer, so that an epoch has some 50 steps.
size_t batch_for(size_t rows) { return std::clamp<size_t>(rows / 50, 4, 32); }

struct WordExample {
  std::vector<int32_t> words, second = {};  // second: of a pair
  size_t row = 0, first = 0;                // of the data; its first word, of a sentence that goes in parts
};

// The words of every text: sentences as they are, other texts cut, both texts of a pair one after the other.
std::vector<std::vector<std::string>> words_of(const Dataset& data) {
  std::vector<std::vector<std::string>> out;
  const auto add = [&](const std::string& text) {
    out.push_back(words_and_signs(text));
    out.back().resize(std::min(out.back().size(), kMostWords));
  };
  for (const TextExample& example : data.texts) {
    add(example.a);
    if (data.kind == TaskKind::kPair) add(example.b);
  }
  for (const TaggedSentence& sentence : data.sentences) out.push_back(sentence.words);
  return out;
}

std::vector<WordExample> examples_of(const Dataset& data, const std::vector<std::vector<std::string>>& texts,
                                     const Vocabulary& vocabulary) {
  std::vector<WordExample> out;
  for (size_t row = 0; row < data.size(); ++row) {
    if (data.kind == TaskKind::kPair) {
      out.push_back({vocabulary.numbers(texts[2 * row]), vocabulary.numbers(texts[2 * row + 1]), row});
      continue;
    }
    const std::vector<int32_t> words = vocabulary.numbers(texts[row]);
    size_t first = 0;
    do {
      const auto begin = words.begin() + ptrdiff_t(first);
      const size_t count = std::min(kMostWords, words.size() - first);
      out.push_back({{begin, begin + ptrdiff_t(count)}, {}, row, first});
      first += count;
    } while (first < words.size());
  }
  return out;
}

class BiLstmLearning {
 public:
  BiLstmLearning(const Dataset& train, const Dataset& dev, const BiLstmOptions& options)
      : train_(train), dev_(dev), options_(options) {
    const std::vector<std::vector<std::string>> texts = words_of(train);
    const Vocabulary vocabulary(texts);
    examples_ = examples_of(train, texts, vocabulary);
    dev_examples_ = examples_of(dev, words_of(dev), vocabulary);
    if (number()) {
      for (const TextExample& row : train.texts) mean_ += row.value / double(train.size());
      for (const TextExample& row : train.texts) deviation_ += std::pow(row.value - mean_, 2);
      deviation_ = std::sqrt(deviation_ / double(train.size()));
      if (!(deviation_ > 0)) deviation_ = 1;
    }
    network_.emplace(BiLstmShape{.reads = train.kind == TaskKind::kTag    ? Reads::kWords
                                          : train.kind == TaskKind::kPair ? Reads::kPairs
                                                                          : Reads::kTexts,
                                 .words = vocabulary.size(),
                                 .outputs = number() ? 1 : train.labels.size()},
                     options.seed, options.threads);
    first_moments_.resize(network_->values().size()), second_moments_.resize(network_->values().size());
  }

  Predictions run() {
    const size_t epochs = epochs_for(examples_.size());
    Predictions best;
    double best_score = NAN;
    for (size_t epoch = 0; epoch < epochs; ++epoch) {
      const auto batches = batches_for(examples_, epoch);
      for (size_t i = 0; i < batches.size(); ++i) {
        const double done = (double(epoch) + double(i) / double(batches.size())) / double(epochs);
        if (options_.progress) options_.progress(done);
        step(batches[i], kRate * (1 - done));
      }
      Predictions now = predict();
      const NamedScore main = score(dev_, now, {.metric = options_.metric}).scores.at(0);
      const double value = main.higher_is_better ? main.value : -main.value;
      if (epoch == 0 || value >= best_score || std::isnan(best_score))
        best = std::move(now), best_score = value;
    }
    return best;
  }

 private:
  bool tags() const { return train_.kind == TaskKind::kTag; }
  bool number() const { return !tags() && train_.problem == Problem::kRegression; }
  bool several() const { return !tags() && train_.problem == Problem::kMultiLabel; }

  std::vector<std::vector<size_t>> batches_for(const std::vector<WordExample>& examples, size_t epoch) const {
    std::vector<size_t> lengths;
    for (const WordExample& e : examples) lengths.push_back(std::max(e.words.size(), e.second.size()));
    return batches_of_similar_length(lengths, batch_for(examples_.size()), options_.seed, epoch);
  }

  WordBatch batch_of(const std::vector<WordExample>& examples, const std::vector<size_t>& places) const {
    std::vector<std::span<const int32_t>> sequences;
    for (const size_t i : places) sequences.push_back(examples[i].words);
    if (train_.kind == TaskKind::kPair)
      for (const size_t i : places) sequences.push_back(examples[i].second);
    return make_word_batch(sequences);
  }

  // logits become their gradient; the loss is a mean over rows, which are words for tags.
  void loss_gradient(const std::vector<size_t>& places, Matrix<float> logits) {
    const float scale = 1 / float(std::max<size_t>(logits.rows(), 1));
    std::vector<int32_t> targets;
    for (size_t r = 0; r < places.size(); ++r) {
      const WordExample& example = examples_[places[r]];
      if (tags()) {
        const int32_t* tag = train_.sentences[example.row].tags.data() + example.first;
        targets.insert(targets.end(), tag, tag + example.words.size());
        continue;
      }
      const TextExample& row = train_.texts[example.row];
      if (number())
        logits(r, 0) = scale * (logits(r, 0) - float((row.value - mean_) / deviation_));
      else if (several())
        for (size_t k = 0; k < logits.cols(); ++k)
          logits(r, k) = scale * (1 / (1 + std::exp(-logits(r, k))) -
                                  float(std::ranges::count(row.labels, int32_t(k)) > 0));
      else
        targets.push_back(row.labels.at(0));
    }
    if (!targets.empty()) kernels::cross_entropy(logits, targets, scale, true, network_->team());
  }

  // Adam; but a word's vector and moments move only when the word is there, which saves most of the time.
  void step(const std::vector<size_t>& places, double rate) {
    const WordBatch batch = batch_of(examples_, places);
    const Dropout dropout{kDropout, options_.seed * 1'000'003 + steps_};
    const Matrix<float> logits = network_->forward(batch, dropout);
    loss_gradient(places, logits);
    network_->backward(batch, logits, dropout);

    std::vector<int32_t> seen = batch.words;
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const Matrix<float> table = network_->tensors()[0].values;
    const size_t in_table = table.rows() * table.cols();
    std::vector<std::pair<size_t, size_t>> parts{{in_table, network_->values().size() - in_table}};
    for (const int32_t word : seen) parts.emplace_back(size_t(word) * table.cols(), table.cols());

    Team& team = network_->team();
    double squares = 0;
    for (const auto& [first, count] : parts)
      squares += kernels::sum_of_squares(network_->gradients().subspan(first, count), team);
    ++steps_;
    const kernels::AdamStep adam{.rate = rate,
                                 .eps = 1e-8,
                                 .correction1 = 1 / (1 - std::pow(0.9, double(steps_))),
                                 .correction2 = 1 / (1 - std::pow(0.999, double(steps_))),
                                 .scale = std::min(1.0, kClip / (std::sqrt(squares) + 1e-12))};
    for (const auto& [first, count] : parts) {
      const auto part = [&](std::span<float> all) { return all.subspan(first, count); };
      kernels::adam_update(adam, part(network_->values()), part(network_->gradients()), part(first_moments_),
                           part(second_moments_), team);
    }
  }

  Predictions predict() {
    Predictions out;
    if (tags()) {
      for (const TaggedSentence& sentence : dev_.sentences) {
        out.tags.emplace_back(sentence.words.size());
        out.tag_scores.emplace_back(sentence.words.size());
      }
    } else {
      out.columns = number() ? 1 : train_.labels.size();
      out.scores.resize(dev_.size() * out.columns);
    }
    for (const std::vector<size_t>& places : batches_for(dev_examples_, 0)) {
      const Matrix<float> logits = network_->forward(batch_of(dev_examples_, places));
      size_t next = 0;
      for (const size_t i : places) {
        const WordExample& example = dev_examples_[i];
        if (!tags()) {
          const std::span<float> to = std::span(out.scores).subspan(example.row * out.columns, out.columns);
          std::ranges::copy(logits[next++], to.begin());
          to_scores(to);
          continue;
        }
        for (size_t w = 0; w < example.words.size(); ++w) {
          const std::span<float> row = logits[next++];
          to_scores(row);
          const auto best = std::ranges::max_element(row);
          out.tags[example.row][example.first + w] = int32_t(best - row.begin());
          out.tag_scores[example.row][example.first + w] = *best;
        }
      }
    }
    return out;
  }

  void to_scores(std::span<float> logits) const {
    if (number())
      logits[0] = float(double(logits[0]) * deviation_ + mean_);
    else if (several())
      for (float& z : logits) z = 1 / (1 + std::exp(-z));
    else
      kernels::softmax_forward(logits);
  }

  const Dataset &train_, &dev_;
  const BiLstmOptions& options_;
  std::vector<WordExample> examples_, dev_examples_;
  double mean_ = 0, deviation_ = 0;  // of the numbers of a regression
  std::optional<BiLstm> network_;
  std::vector<float> first_moments_, second_moments_;  // Adam's
  uint64_t steps_ = 0;
};

}  // namespace

Predictions train_bilstm(const Dataset& train, const Dataset& dev, const BiLstmOptions& options) {
  return BiLstmLearning(train, dev, options).run();
}

}  // namespace bertie::baseline
