// Which head tells whom a pronoun means.
#include <algorithm>

#include "bertie/error.h"
#include "bertie/heads.h"
#include "core/parallel.h"
#include "explain/head_texts.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// The tokens of a place in a text.
std::vector<size_t> tokens_at(const Encoding& e, Offset place) {
  std::vector<size_t> tokens;
  for (size_t t = 0; t < e.size(); ++t)
    if (!e.special(t) && e.offsets[t].begin < place.end && e.offsets[t].end > place.begin)
      tokens.push_back(t);
  return tokens;
}

double mean_attention(Matrix<const float> weights, const std::vector<size_t>& from,
                      const std::vector<size_t>& to) {
  double sum = 0;
  for (const size_t i : from)
    for (const size_t j : to) sum += double(weights(i, j)) / double(from.size());
  return sum;
}

struct PronounTokens {
  std::vector<size_t> pronoun, a, b;
};

}  // namespace

CoreferenceScore judge_coreference(const TextModel& model, std::span<const PronounExample> examples,
                                   const HeadsOptions& options) {
  const Config& config = model.model().config();
  if (config.attention.compute.kind != Compute::Kind::kSoftmax)
    throw Error("this model's attention has no weights of each token to each other one, or approximate ones",
                "a model with softmax attention");
  CoreferenceScore score;
  std::vector<HeadText> texts;
  std::vector<PronounTokens> places;
  std::vector<const PronounExample*> used;
  size_t nearer = 0;
  for (const PronounExample& example : examples) {
    HeadText text = head_text(model, example.text);
    PronounTokens at{tokens_at(text.encoding, example.pronoun), tokens_at(text.encoding, example.a),
                     tokens_at(text.encoding, example.b)};
    if (at.pronoun.empty() || at.a.empty() || at.b.empty()) {
      ++score.too_long;
      continue;
    }
    const auto distance = [&](Offset name) {
      return name.begin > example.pronoun.begin ? name.begin - example.pronoun.begin
                                                : example.pronoun.begin - name.begin;
    };
    nearer += (distance(example.a) < distance(example.b)) == example.is_a;
    texts.push_back(std::move(text)), places.push_back(std::move(at)), used.push_back(&example);
  }
  score.count = texts.size();
  if (texts.empty())
    throw Error("there is no text with a pronoun and two names that the model can read", "other texts");
  const auto count = double(score.count);
  score.nearest_accuracy = double(nearer) / count;

  const size_t every = config.depth() * config.heads, steps = score.count * (options.random_model ? 2 : 1);
  size_t done = 0;
  Team team(model.threads());
  // How often each head is right, both ways.
  const auto judge = [&](Run& run, const Config& shape) {
    std::vector<size_t> right(2 * every);
    for_each_batch(texts, [&](size_t first, const Batch& batch) {
      const Output& output = run.forward(batch, {.all_attention = true});
      team.parallel_for(every, [&](size_t which) {
        const size_t layer = which / config.heads, head = which % config.heads;
        if (!shape.has_head(layer, head)) return;
        for (size_t s = 0; s < batch.size(); ++s) {
          const Matrix<const float> w = output.attention(layer, s, head);
          const PronounTokens& at = places[first + s];
          const bool is_a = used[first + s]->is_a;
          right[2 * which] +=
              (mean_attention(w, at.pronoun, at.a) > mean_attention(w, at.pronoun, at.b)) == is_a;
          right[2 * which + 1] +=
              (mean_attention(w, at.a, at.pronoun) > mean_attention(w, at.b, at.pronoun)) == is_a;
        }
      });
      done += batch.size();
      if (options.progress) options.progress(done, steps);
    });
    return right;
  };
  const auto best = [&](const std::vector<size_t>& right) {
    return size_t(std::max_element(right.begin(), right.end()) - right.begin());
  };
  {
    const auto worker = TextModelAccess::worker(model);
    const std::vector<size_t> right = judge(worker->run, config);
    const size_t found = best(right);
    score.head = {found / 2 / config.heads, found / 2 % config.heads}, score.from_name = found % 2;
    score.accuracy = double(right[found]) / count;
  }
  if (options.random_model) {
    Config shape = config;
    shape.pruned_heads.clear();
    const Model other = Model::random(shape, options.seed);
    Run run(other, model.threads());
    const std::vector<size_t> right = judge(run, shape);
    score.random_accuracy = double(right[best(right)]) / count;
  }
  return score;
}

}  // namespace bertie
