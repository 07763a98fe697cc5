// Each baseline of a task in turn: learn from the one part, predict the other, be scored as any model is.
#include "bertie/baselines.h"

#include <fmt/format.h>

#include <chrono>

#include "bertie/config.h"
#include "core/parallel.h"
#include "tasks/modules.h"
#include "train/baselines/bilstm_learning.h"
#include "train/baselines/frequent_tag.h"
#include "train/baselines/linear_model.h"
#include "train/baselines/tfidf.h"
#include "train/baselines/word_vectors.h"

namespace bertie {
namespace {

constexpr double kMostBytes = 4e9;  // that one of them may take

void check_parts(const Dataset& train, const Dataset& dev) {
  check_baselines(train.kind);
  if (train.size() == 0 || dev.size() == 0)
    throw Error("a baseline needs rows to learn from and rows to measure with", "", "data");
  if (train.kind != dev.kind || train.problem != dev.problem || train.labels != dev.labels)
    throw Error("the rows to learn from and those to measure with have different labels",
                "`with_labels` gives one the labels of the other", "data");
}

class Baselines {
 public:
  Baselines(const Dataset& train, const Dataset& dev, const BaselineOptions& options)
      : train_(train),
        dev_(dev),
        options_(options),
        team_(options.threads > 0 ? options.threads : available_threads()) {}

  std::vector<BaselineResult> run() {
    if (train_.kind == TaskKind::kTag) {
      measure("most frequent tag", [&](const auto&) { return baseline::FrequentTag(train_).predict(dev_); });
    } else {
      const std::string model =
          train_.problem == Problem::kRegression ? "ridge regression" : "logistic regression";
      const baseline::Tfidf words(train_);
      const auto labels = double(std::max<size_t>(train_.labels.size(), 1));
      if (fits("TF-IDF", baseline::kFitCopies * 8 * labels * double(parts() * words.words().size())))
        measure("TF-IDF + " + model, [&](const baseline::FitOptions& how) {
          return baseline::fit_and_predict(words.features(train_), train_, words.features(dev_), team_, how);
        });
      const auto width =
          double(Config::load(transformer_files(ModelFiles(options_.model))).embedding_size() * parts());
      if (fits("word vectors", 4 * width * double(train_.size() + dev_.size())))
        measure("word vectors + " + model, [&](const baseline::FitOptions& how) {
          baseline::FeatureRows x = baseline::mean_word_vectors(options_.model, train_),
                                dev_x = baseline::mean_word_vectors(options_.model, dev_);
          baseline::standardize(x, dev_x);
          return baseline::fit_and_predict(x, train_, dev_x, team_, how);
        });
    }
    const bool tags = train_.kind == TaskKind::kTag;
    measure(tags ? "BiLSTM" : "BiLSTM + attention", [&](const baseline::FitOptions& how) {
      return baseline::train_bilstm(train_, dev_,
                                    {.metric = options_.metric,
                                     .seed = options_.seed,
                                     .threads = team_.threads(),
                                     .progress = how.progress});
    });
    return std::move(results_);
  }

 private:
  // Features of a pair are those of both texts, their distances and products.
  size_t parts() const { return train_.kind == TaskKind::kPair ? 4 : 1; }
  bool fits(std::string_view name, double bytes) const {
    if (bytes <= kMostBytes) return true;
    if (options_.note)
      options_.note(
          fmt::format("the baseline with {} is left out: it would take {:.0f} GB", name, bytes / 1e9));
    return false;
  }

  template <class Predict>
  void measure(const std::string& name, const Predict& predict) {
    const auto start = std::chrono::steady_clock::now();
    baseline::FitOptions how;
    if (options_.progress) {
      how.progress = [&](double fraction) { options_.progress(name, fraction); };
      how.progress(0);
    }
    const Predictions predictions = predict(how);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    results_.push_back({name, score(dev_, predictions, {.metric = options_.metric}), seconds.count()});
    if (options_.progress) options_.progress(name, 1);
    if (options_.done) options_.done(results_.back());
  }

  const Dataset &train_, &dev_;
  const BaselineOptions& options_;
  Team team_;
  std::vector<BaselineResult> results_;
};

}  // namespace

void check_baselines(TaskKind kind) {
  if (kind == TaskKind::kAnswer)
    throw Error(
        "there is no baseline for answers",
        "leave it out: texts and pairs have TF-IDF, word vectors and a BiLSTM, tags the most frequent tag "
        "and a BiLSTM",
        "baseline");
}

std::vector<BaselineResult> train_baselines(const Dataset& train, const Dataset& dev,
                                            const BaselineOptions& options) {
  check_parts(train, dev);
  return Baselines(train, dev, options).run();
}

}  // namespace bertie
