// Labels of texts and of pairs.
#include <algorithm>
#include <cmath>

#include "tasks/pipeline_state.h"

namespace bertie {
namespace {

// What transformers' pipeline does where it is not told.
Apply by_problem(const Config& config) {
  if (config.problem == Problem::kRegression) return Apply::kNothing;
  if (config.problem == Problem::kMultiLabel || config.labels.size() == 1) return Apply::kSigmoid;
  return Apply::kSoftmax;
}

std::vector<Scored> labelled(const Config& config, Apply apply, std::span<const float> logits) {
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

// Texts and pairs differ in how they are encoded alone.
template <class State, class Input>
std::vector<std::vector<Scored>> classify_all(State& s, std::span<const Input> inputs, Apply apply) {
  std::vector<std::vector<Scored>> out(inputs.size());
  s.work(
      {.head = Head::kClassify,
       .inputs = inputs.size(),
       .add = [&](size_t i) { s.add_cut(inputs[i]); },
       .use = [&](size_t i, size_t,
                  Matrix<const float> logits) { out[i] = labelled(s.model().config(), apply, logits[0]); }});
  return out;
}

}  // namespace

std::vector<std::vector<Scored>> Pipeline::classify(std::span<const std::string_view> texts, Apply apply) {
  return classify_all(*state_, texts, apply);
}

std::vector<std::vector<Scored>> Pipeline::classify(std::span<const TextPair> pairs, Apply apply) {
  return classify_all(*state_, pairs, apply);
}

std::vector<Scored> Pipeline::classify(std::string_view text, Apply apply) {
  return std::move(classify(std::span(&text, 1), apply)[0]);
}

std::vector<Scored> Pipeline::classify(std::string_view a, std::string_view b, Apply apply) {
  const TextPair pair{a, b};
  return std::move(classify(std::span(&pair, 1), apply)[0]);
}

}  // namespace bertie
