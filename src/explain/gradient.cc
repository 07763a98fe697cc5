// Gradient × attention: what each weight does to a prediction.
//
//   c = A·V for each head, so ∂z/∂A = ∂z/∂c · Vᵀ, where ∂z/∂c is what the way back brings to the heads'
//   output.
#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "bertie/explain.h"
#include "bertie/nearest.h"
#include "io/quote.h"
#include "kernels/matmul.h"
#include "model/gradient_run.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// Where a prediction is made, and what it is.
struct Target {
  int32_t row = 0, id = -1;  // id below 0: the likeliest
};

Target target_of(const TextModel& model, const Encoding& encoding, const Prediction& prediction) {
  if (prediction.head != Head::kMaskedLm && prediction.head != Head::kClassify)
    throw Error("gradients are of a token at a mask, or of a text's label", "Head::kMaskedLm or kClassify");
  model.require(prediction.head);
  Target target;
  if (prediction.head == Head::kClassify) {
    if (prediction.name.empty()) return target;
    const std::vector<std::string>& labels = model.model().config().labels;
    const auto found = std::find(labels.begin(), labels.end(), prediction.name);
    if (found == labels.end())
      throw Error(
          fmt::format("the model has no label {}", io::quote(prediction.name)),
          fmt::format("it has {}",
                      fmt::join(labels.begin(),
                                labels.begin() + ptrdiff_t(std::min<size_t>(labels.size(), 10)), ", ")),
          "label");
    target.id = int32_t(found - labels.begin());
    return target;
  }
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<int32_t> masks;
  for (size_t t = 0; t < encoding.size(); ++t)
    if (encoding.ids[t] == tokenizer.mask_id()) masks.push_back(int32_t(t));
  if (masks.empty())
    throw Error("the text has no mask",
                fmt::format("write {} where a word is missing", tokenizer.token(tokenizer.mask_id())),
                "text");
  if (prediction.mask >= masks.size())
    throw Error(fmt::format("there is no mask {}: the text has {}", prediction.mask + 1, masks.size()), "",
                "mask");
  target.row = masks[prediction.mask];
  if (!prediction.name.empty()) target.id = vocabulary_id(tokenizer, prediction.name, "token");
  return target;
}

AttentionGradient gradient_of(const TextModel& model, Encoding encoding, const Prediction& prediction,
                              const GradientOptions& options) {
  const Config& config = model.model().config();
  AttentionGradient out;
  Attention& a = out.attention;
  a = attention_of(config, model.tokenizer(), std::move(encoding), options.layers);
  const size_t n = a.n(), d = config.head_size();
  Target target = target_of(model, a.encoding, prediction);
  const int32_t offsets[2] = {0, int32_t(n)};
  const Batch batch{.ids = a.encoding.ids, .types = a.encoding.types, .offsets = offsets};
  const bool at_token = prediction.head == Head::kMaskedLm;
  const std::span<const int32_t> rows(&target.row, at_token ? 1 : 0);
  if (target.id < 0) {
    const auto worker = TextModelAccess::worker(model);
    const std::span<const float> logits =
        worker->run.forward(batch, {.last_hidden = false, .head = prediction.head, .rows = rows}).logits[0];
    target.id = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  a.weights.resize(a.kept.size() * a.heads * n * n);
  const auto room = [&](size_t layer, size_t head) {
    const size_t place = size_t(std::find(a.kept.begin(), a.kept.end(), layer) - a.kept.begin());
    return Matrix<float>(a.weights.data() + (place * a.heads + head) * n * n, n, n);
  };

  GradientRun run(model.model(), model.threads());
  run.switch_off(model.heads_off());
  std::vector<float> workspace(kernels::matmul_workspace_floats(d, n));
  const auto see = [&](const GradientRun::Seen& seen) {
    if (!std::binary_search(a.kept.begin(), a.kept.end(), seen.layer)) return;
    const std::vector<size_t> there = config.heads_of(seen.layer);
    for (size_t i = 0; i < there.size(); ++i)
      kernels::matmul(seen.d_context.slice_cols(i * d, d),
                      kernels::transposed(seen.values.slice_cols(i * d, d)), room(seen.layer, there[i]),
                      workspace.data(), run.team());
  };
  const LossTerm term{.head = prediction.head, .rows = rows, .targets = {&target.id, 1}, .logits = true};
  out.logit = run.run(batch, term, see).loss;
  // Weights are attend's: the way back does without them. All layers below run the same kernel as there.
  const auto worker = TextModelAccess::worker(model);
  Capture capture;
  for (size_t layer = 0; layer <= a.kept.back() && options.times_weight; ++layer)
    capture.attention.push_back(layer);
  const Output* const output = options.times_weight ? &worker->run.forward(batch, capture) : nullptr;
  for (const size_t layer : a.kept)
    for (const size_t head : config.heads_of(layer)) {
      const Matrix<float> gradient = room(layer, head);
      const Matrix<const float> weights = output ? output->attention(layer, 0, head) : Matrix<const float>();
      for (size_t i = 0; i < n && output; ++i)
        for (size_t j = 0; j < n; ++j) gradient(i, j) *= weights(i, j);
      check_finite(gradient);
    }
  out.name =
      at_token ? model.tokenizer().decode(std::span(&target.id, 1), false) : config.labels[size_t(target.id)];
  return out;
}

}  // namespace

AttentionGradient attention_gradient(const TextModel& model, std::string_view text,
                                     const Prediction& prediction, const GradientOptions& options) {
  return gradient_of(model, model.tokenizer().encode(text), prediction, options);
}

AttentionGradient attention_gradient(const TextModel& model, const TextPair& pair,
                                     const Prediction& prediction, const GradientOptions& options) {
  return gradient_of(model, model.tokenizer().encode(pair.a, pair.b), prediction, options);
}

}  // namespace bertie
