// Sentences whose words have tags: entities where the labels are tags of entities, else words.
#include <algorithm>

#include "train/metrics/classification.h"
#include "train/metrics/entities.h"
#include "train/metrics/scorer.h"

namespace bertie::metrics {
namespace {

// What both kinds share: the sentences, and the words that are right.
class TagScorer : public Scorer {
 public:
  TagScorer(const Dataset& data, const Predictions& predictions) : data_(data), predicted_(predictions.tags) {
    for (size_t i = 0; i < data.sentences.size(); ++i) {
      const std::vector<int32_t>& truth = data.sentences[i].tags;
      size_t right = 0;
      for (size_t w = 0; w < truth.size(); ++w) right += truth[w] == predicted_[i][w];
      right_words_.push_back(right);
    }
  }

  std::optional<bool> right(size_t row) const override { return right_words_[row] == truth(row).size(); }

 protected:
  const std::vector<int32_t>& truth(size_t row) const { return data_.sentences[row].tags; }
  const std::vector<int32_t>& predicted(size_t row) const { return predicted_[row]; }
  size_t rows() const { return right_words_.size(); }

  double word_accuracy(std::span<const uint32_t> weights) const {
    double right = 0, words = 0;
    for (size_t i = 0; i < rows(); ++i)
      right += weights[i] * double(right_words_[i]), words += weights[i] * double(truth(i).size());
    return words == 0 ? 0 : right / words;
  }
  void describe_rows(Evaluation& evaluation) const {
    for (size_t i = 0; i < rows(); ++i)
      evaluation.row_scores.push_back(truth(i).empty() ? 1
                                                       : double(right_words_[i]) / double(truth(i).size()));
  }
  const std::vector<std::string>& labels() const { return data_.labels; }

 private:
  const Dataset& data_;
  const std::vector<std::vector<int32_t>>& predicted_;
  std::vector<size_t> right_words_;
};

class EntityScorer : public TagScorer {
 public:
  EntityScorer(const Dataset& data, const Predictions& predictions)
      : TagScorer(data, predictions), tags_(entity_tags(data.labels)), kinds_(tags_.kinds.size()) {
    for (size_t i = 0; i < rows(); ++i) {
      const std::vector<Counts> counts = count_entities(tags_, truth(i), predicted(i), seqeval_border);
      for (size_t k = 0; k < counts.size(); ++k) kinds_[k] += counts[k];
      entities_.push_back(sum(counts));
      if (tags_.ends_or_singles)
        conlleval_.push_back(sum(count_entities(tags_, truth(i), predicted(i), conlleval_border)));
    }
  }

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    const Counts all = weighted(entities_, weights);
    std::vector<NamedScore> out{named("f1", all.f1()), named("precision", all.precision()),
                                named("recall", all.recall()), named("accuracy", word_accuracy(weights))};
    if (tags_.ends_or_singles) {
      const Counts other = weighted(conlleval_, weights);
      out.push_back(named("conlleval_f1", other.f1()));
      out.push_back(named("conlleval_precision", other.precision()));
      out.push_back(named("conlleval_recall", other.recall()));
    }
    return out;
  }

  void describe(Evaluation& evaluation) const override {
    for (size_t k = 0; k < kinds_.size(); ++k)
      if (kinds_[k].seen()) evaluation.classes.push_back(kinds_[k].named(tags_.kinds[k]));
    describe_rows(evaluation);
  }

 private:
  static Counts weighted(std::span<const Counts> rows, std::span<const uint32_t> weights) {
    Counts all;
    for (size_t i = 0; i < rows.size(); ++i)
      all += {weights[i] * rows[i].right, weights[i] * rows[i].predicted, weights[i] * rows[i].support};
    return all;
  }

  EntityTags tags_;
  std::vector<Counts> kinds_, entities_, conlleval_;  // by kind; by sentence
};

class WordScorer : public TagScorer {
 public:
  using TagScorer::TagScorer;

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    return {named("accuracy", word_accuracy(weights)), named("f1_macro", macro_f1_of_seen(count(weights)))};
  }

  void describe(Evaluation& evaluation) const override {
    const std::vector<Counts> classes = count(std::vector<uint32_t>(rows(), 1));
    for (size_t k = 0; k < classes.size(); ++k) evaluation.classes.push_back(classes[k].named(labels()[k]));
    describe_rows(evaluation);
  }

 private:
  std::vector<Counts> count(std::span<const uint32_t> weights) const {
    std::vector<Counts> classes(labels().size());
    for (size_t i = 0; i < rows(); ++i) {
      if (weights[i] == 0) continue;
      const std::vector<uint32_t> words(truth(i).size(), weights[i]);
      const std::vector<Counts> more = count_classes(truth(i), predicted(i), words, classes.size());
      for (size_t k = 0; k < classes.size(); ++k) classes[k] += more[k];
    }
    return classes;
  }
};

}  // namespace

std::unique_ptr<Scorer> tag_scorer(const Dataset& data, const Predictions& predictions) {
  if (are_entity_tags(data.labels)) return std::make_unique<EntityScorer>(data, predictions);
  return std::make_unique<WordScorer>(data, predictions);
}

}  // namespace bertie::metrics
