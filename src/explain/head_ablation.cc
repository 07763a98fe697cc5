#include "explain/head_ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "io/quote.h"
#include "model/gradient_run.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// Masked texts as batches, with what was masked.
struct MaskedBatch {
  std::vector<int32_t> ids, types, offsets{0}, rows, targets;
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
};

std::vector<MaskedBatch> masked_batches(const TextModel& model, std::span<const HeadText> texts,
                                        uint64_t seed) {
  const int32_t mask = model.tokenizer().mask_id();
  if (mask < 0)
    throw Error("this model's tokenizer has no mask token", "a model that was trained with masks");
  constexpr size_t kTokens = 1024;
  std::vector<MaskedBatch> batches;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Encoding& e = texts[i].encoding;
    if (batches.empty() || batches.back().ids.size() + e.size() > kTokens) batches.emplace_back();
    MaskedBatch& b = batches.back();
    const MaskedText masked = masked_text(e, mask, seed, i);
    for (const int32_t row : masked.rows) b.rows.push_back(int32_t(b.ids.size()) + row);
    b.targets.insert(b.targets.end(), masked.targets.begin(), masked.targets.end());
    b.ids.insert(b.ids.end(), masked.ids.begin(), masked.ids.end());
    b.types.insert(b.types.end(), e.types.begin(), e.types.end());
    b.offsets.push_back(int32_t(b.ids.size()));
  }
  std::erase_if(batches, [](const MaskedBatch& b) { return b.rows.empty(); });
  return batches;
}

double masked_loss(Run& run, std::span<const MaskedBatch> batches) {
  double loss = 0;
  for (const MaskedBatch& b : batches) {
    const Output& out =
        run.forward(b.batch(), {.last_hidden = false, .head = Head::kMaskedLm, .rows = b.rows});
    check_finite(out.logits);
    for (size_t r = 0; r < b.rows.size(); ++r) {
      const std::span<const float> z = out.logits[r];
      const double most = *std::max_element(z.begin(), z.end());
      double sum = 0;
      for (const float x : z) sum += std::exp(double(x) - most);
      loss += most + std::log(sum) - double(z[size_t(b.targets[r])]);
    }
  }
  return loss;
}

}  // namespace

size_t texts_for_ablation(std::span<const HeadText> texts, size_t tokens) {
  size_t count = 0, sum = 0;
  while (count < texts.size() && sum < tokens) sum += texts[count++].encoding.size();
  return count;
}

HeadAblation ablate_heads(const TextModel& model, std::span<const HeadText> texts, uint64_t seed,
                          const std::function<void()>& step) {
  const std::vector<MaskedBatch> batches = masked_batches(model, texts, seed);
  HeadAblation out;
  for (const MaskedBatch& b : batches) out.tokens += b.rows.size();
  if (out.tokens == 0) throw Error("there is no token to mask in these sentences", "other sentences");
  const Config& config = model.model().config();
  const auto loss = [&](const TextModel& with) {
    const auto worker = TextModelAccess::worker(with);
    const double sum = masked_loss(worker->run, batches);
    step();
    return sum / double(out.tokens);
  };
  out.loss = loss(model);
  for (size_t layer = 0; layer < config.depth(); ++layer)
    for (size_t head = 0; head < config.heads; ++head)
      out.without.push_back(config.has_head(layer, head) ? loss(model.without({{layer, head}})) : NAN);
  return out;
}

std::vector<double> head_importance(const TextModel& model, const Texts& texts,
                                    const ImportanceOptions& options) {
  const Config& config = model.model().config();
  const bool labeled = !options.labels.empty();
  if (labeled && options.labels.size() != texts.size())
    throw Error(fmt::format("{} labels for {} texts", options.labels.size(), texts.size()), "", "labels");
  model.require(labeled ? Head::kClassify : Head::kMaskedLm);
  if (!labeled && model.tokenizer().mask_id() < 0)
    throw Error("this model's tokenizer has no mask token", "a model that was trained with masks");
  std::vector<double> importance(config.depth() * config.heads);
  GradientRun run(model.model(), model.threads());
  run.switch_off(model.heads_off());
  const size_t d = config.head_size();
  Encoding encoding;
  size_t used = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    model.tokenizer().encode_into(texts[i], {.max_length = model.task_max_length()}, encoding);
    MaskedText masked{.ids = encoding.ids, .rows = {}, .targets = {}};
    if (labeled) {
      const auto label = std::find(config.labels.begin(), config.labels.end(), options.labels[i]);
      if (label == config.labels.end())
        throw Error(fmt::format("the model has no label {}", io::quote(options.labels[i])), "", "labels");
      masked.targets = {int32_t(label - config.labels.begin())};
    } else {
      masked = masked_text(encoding, model.tokenizer().mask_id(), options.seed, i);
    }
    if (!masked.targets.empty() && encoding.size() > 0) {
      const int32_t offsets[2] = {0, int32_t(encoding.size())};
      const LossTerm term{.head = labeled ? Head::kClassify : Head::kMaskedLm,
                          .rows = masked.rows,
                          .targets = masked.targets,
                          .scale = 1 / float(masked.targets.size())};
      // One text at a time: the size of each one's slope counts, not that of their sum.
      run.run({.ids = masked.ids, .types = encoding.types, .offsets = offsets}, term,
              [&](const GradientRun::Seen& seen) {
                const std::vector<size_t> there = config.heads_of(seen.layer);
                for (size_t h = 0; h < there.size(); ++h) {
                  double slope = 0;
                  for (size_t t = 0; t < seen.context.rows(); ++t)
                    for (size_t c = h * d; c < (h + 1) * d; ++c)
                      slope += double(seen.context(t, c)) * double(seen.d_context(t, c));
                  importance[seen.layer * config.heads + there[h]] += std::abs(slope);
                }
              });
      ++used;
    }
    if (options.progress) options.progress(i + 1, texts.size());
  }
  if (used == 0) throw Error("there is no text to measure heads on", "texts with at least one word");
  for (size_t layer = 0; layer < config.depth(); ++layer) {
    const std::span<double> row(importance.data() + layer * config.heads, config.heads);
    double squares = 0;
    for (double& x : row) x /= double(used), squares += x * x;
    for (double& x : row)
      if (options.scaled && squares > 0) x /= std::sqrt(squares);
  }
  return importance;
}

}  // namespace bertie
