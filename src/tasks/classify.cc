// Labels of texts and of pairs.
#include <algorithm>
#include <cmath>

#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// What transformers' pipeline does where it is not told.
Apply by_problem(const Config& config) {
  if (config.problem == Problem::kRegression) return Apply::kNothing;
  if (config.problem == Problem::kMultiLabel || config.labels.size() == 1) return Apply::kSigmoid;
  return Apply::kSoftmax;
}

std::vector<Scored> labeled(const Config& config, Apply apply, std::span<const float> logits) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (apply == Apply::kByProblem) apply = by_problem(config);
  if (apply == Apply::kSoftmax) softmax(scores);
  if (apply == Apply::kSigmoid)
    for (float& x : scores) x = float(1 / (1 + std::exp(-double(x))));
  std::vector<Scored> out(scores.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = {config.labels[i], scores[i]};
  std::stable_sort(out.begin(), out.end(),
                   [](const Scored& a, const Scored& b) { return a.score > b.score; });
  return out;
}

// Texts and pairs differ in how they are encoded alone: inputs[i] is a std::string_view or a TextPair.
std::vector<Classification> classify_all(const LoadedModel& loaded, Worker& worker, size_t max_length,
                                         const auto& inputs, const ClassifyOptions& options) {
  std::vector<Classification> out(inputs.size());
  run_work(worker, {.head = Head::kClassify,
                    .inputs = inputs.size(),
                    .add =
                        [&](size_t i) {
                          add_cut(worker, loaded.tokenizer, inputs[i], max_length);
                          out[i].tokens = worker.encoding.size();
                          out[i].truncated = worker.encoding.truncated;
                        },
                    .use =
                        [&](size_t i, size_t, Matrix<const float> logits) {
                          out[i].labels = labeled(loaded.model.config(), options.apply, logits[0]);
                        },
                    .progress = options.progress});
  return out;
}

}  // namespace

std::vector<Classification> TextModel::classify(const Texts& texts, const ClassifyOptions& options) const {
  require(Head::kClassify);
  return classify_all(*state_->loaded, *state_->take_worker(), state_->head_length(), texts, options);
}

std::vector<Classification> TextModel::classify(std::span<const TextPair> pairs,
                                                const ClassifyOptions& options) const {
  require(Head::kClassify);
  return classify_all(*state_->loaded, *state_->take_worker(), state_->head_length(), pairs, options);
}

Classification TextModel::classify(std::string_view text, const ClassifyOptions& options) const {
  return std::move(classify(Texts(std::span(&text, 1)), options)[0]);
}

Classification TextModel::classify(std::string_view a, std::string_view b,
                                   const ClassifyOptions& options) const {
  const TextPair pair{a, b};
  return std::move(classify(std::span(&pair, 1), options)[0]);
}

}  // namespace bertie
