// Where heads look, over many sentences; relations of a treebank are in head_relations.cc, what the model
// loses without a head in head_ablation.cc.
#include "bertie/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bertie/error.h"
#include "core/parallel.h"
#include "explain/head_ablation.h"
#include "explain/head_relations.h"
#include "explain/head_texts.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

double minus_p_log_p(double p) { return p > 0 ? -p * std::log(p) : 0; }

// Adds what each of a text's tokens looks at; means are taken at the end.
void add_shares(const HeadText& text, Matrix<const float> weights, HeadShares& sum) {
  const size_t n = weights.rows();
  const std::vector<uint8_t> special = special_kinds(text.encoding);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      const double w = weights(i, j);
      if (special[j] == 1) sum.cls += w;
      if (special[j] == 2) sum.sep += w;
      if (text.punctuation[j]) sum.punctuation += w;
      if (j + 1 == i) sum.previous += w;
      if (j == i + 1) sum.next += w;
      if (j == i) sum.self += w;
      sum.entropy += minus_p_log_p(w);
      sum.distance += w * double(i > j ? i - j : j - i);
    }
}

void divide(HeadShares& s, double by) {
  for (double* x : {&s.cls, &s.sep, &s.punctuation, &s.previous, &s.next, &s.self, &s.entropy, &s.distance})
    *x /= by;
}

// Sums of the divergence of all pairs of heads: JS(P, Q) = H((P + Q)/2) − H(P)/2 − H(Q)/2, of one token's
// weights in both.
class Divergence {
 public:
  Divergence(size_t heads, size_t rows, size_t texts)
      : heads_(heads),
        most_(rows),
        per_text_(texts > 0 ? (rows + texts - 1) / texts : 0),
        gone_(heads),
        sums_(heads * heads) {}

  // at(head) gives a text's weights. Of each text some rows, so that many texts have a say.
  template <class At>
  void add(size_t n, const At& at, Team& team) {
    const size_t count = std::min({per_text_, n, most_ - rows_});
    if (count == 0) return;
    std::vector<float> rows(heads_ * n);
    std::vector<double> entropy(heads_);
    for (size_t k = 0; k < count; ++k) {
      const size_t i = (2 * k + 1) * n / (2 * count);
      for (size_t h = 0; h < heads_; ++h) {
        const Matrix<const float> weights = at(h);
        entropy[h] = 0;
        gone_[h] = weights.empty();
        for (size_t j = 0; j < n && !gone_[h]; ++j) {
          rows[h * n + j] = weights(i, j);
          entropy[h] += minus_p_log_p(double(rows[h * n + j]));
        }
      }
      team.parallel_for(heads_, [&](size_t a) {
        for (size_t b = a + 1; b < heads_; ++b) {
          double mixed = 0;
          for (size_t j = 0; j < n; ++j)
            mixed += minus_p_log_p(0.5 * (double(rows[a * n + j]) + double(rows[b * n + j])));
          sums_[a * heads_ + b] += mixed - 0.5 * (entropy[a] + entropy[b]);
        }
      });
      ++rows_;
    }
  }

  std::vector<float> means() const {
    std::vector<float> out(sums_.size());
    for (size_t a = 0; a < heads_ && rows_ > 0; ++a)
      for (size_t b = a + 1; b < heads_; ++b)
        out[a * heads_ + b] = out[b * heads_ + a] =
            gone_[a] || gone_[b] ? std::numeric_limits<float>::quiet_NaN()
                                 : float(std::max(sums_[a * heads_ + b] / double(rows_), 0.0));
    return out;
  }

 private:
  size_t heads_, most_, per_text_, rows_ = 0;
  std::vector<char> gone_;  // heads that were pruned
  std::vector<double> sums_;
};

void check_attention_weights(const Config& config) {
  const Compute::Kind kind = config.attention.compute.kind;
  if (kind != Compute::Kind::kSoftmax)
    throw Error("this model's attention has no weights of each token to each other one, or approximate ones",
                "a model with softmax attention");
}

HeadsReport analyze(const TextModel& model, std::vector<HeadText> texts, const HeadsOptions& options) {
  const Config& config = model.model().config();
  check_attention_weights(config);
  HeadsReport report;
  report.layers = config.depth(), report.heads = config.heads;
  const size_t all = texts.size(), every = report.layers * report.heads;
  std::erase_if(texts, [](const HeadText& text) { return text.encoding.size() == 0; });
  report.too_long = all - texts.size(), report.sentences = texts.size();
  if (texts.empty()) throw Error("there is no sentence that the model can read", "other sentences");
  const bool parsed = texts[0].parsed != nullptr, random = parsed && options.random_model;
  if (options.ablation_tokens > 0) model.require(Head::kMaskedLm);

  // Progress counts texts: those that a model reads, and as many as one is worth for each head that is off.
  const size_t ablated = texts_for_ablation(texts, options.ablation_tokens);
  const size_t steps = texts.size() * (random ? 2 : 1) + (ablated > 0 ? ablated * (every + 1) : 0);
  size_t done = 0;
  const auto step = [&](size_t count) {
    done += count;
    if (options.progress) options.progress(done, steps);
  };

  report.shares.resize(every);
  for (size_t i = 0; i < every; ++i)
    report.shares[i].pruned = !config.has_head(i / config.heads, i % config.heads);
  Divergence divergence(every, options.similarity_rows, texts.size());
  RelationCounts counts(texts, config);
  Team team(model.threads());
  const auto read = [&](Run& run, const Model& read_model, const auto& use) {
    for_each_batch(texts, [&](size_t first, const Batch& batch) {
      const Output& output = run.forward(batch, {.all_attention = true});
      check_finite(output.last_hidden);
      for (size_t s = 0; s < batch.size(); ++s) {
        const auto at = [&](size_t which) {
          const WhichHead head{which / config.heads, which % config.heads};
          const bool there = read_model.config().has_head(head.layer, head.head);
          return there ? output.attention(head.layer, s, head.head) : Matrix<const float>();
        };
        use(texts[first + s], at);
      }
      step(batch.size());
    });
  };
  {
    const auto worker = TextModelAccess::worker(model);
    read(worker->run, model.model(), [&](const HeadText& text, const auto& at) {
      const size_t n = text.encoding.size();
      report.tokens += n;
      team.parallel_for(every, [&](size_t which) {
        const Matrix<const float> weights = at(which);
        if (weights.empty()) return;
        add_shares(text, weights, report.shares[which]);
        counts.add(text, weights, which);
      });
      divergence.add(n, at, team);
    });
  }
  for (HeadShares& s : report.shares) divide(s, double(report.tokens));
  report.divergence = options.similarity_rows > 0 ? divergence.means() : std::vector<float>();
  if (parsed) report.relations = counts.scores(options.least_count);
  if (random) {
    Config shape = config;
    shape.pruned_heads.clear();
    const Model other = Model::random(shape, options.seed);
    Run run(other, model.threads());
    RelationCounts by_chance(texts, config);
    read(run, other, [&](const HeadText& text, const auto& at) {
      team.parallel_for(every, [&](size_t which) { by_chance.add(text, at(which), which); });
    });
    const std::vector<RelationScore> scores = by_chance.scores(options.least_count);
    for (size_t i = 0; i < report.relations.size(); ++i)
      report.relations[i].random_accuracy = scores[i].accuracy;
  }
  if (ablated > 0)
    report.ablation =
        ablate_heads(model, std::span(texts).first(ablated), options.seed, [&] { step(ablated); });
  return report;
}

}  // namespace

HeadsReport analyze_heads(const TextModel& model, std::span<const ParsedSentence> sentences,
                          const HeadsOptions& options) {
  std::vector<HeadText> texts;
  for (const ParsedSentence& sentence : sentences) texts.push_back(head_text(model, sentence));
  return analyze(model, std::move(texts), options);
}

HeadsReport analyze_heads(const TextModel& model, const Texts& texts, const HeadsOptions& options) {
  std::vector<HeadText> all;
  for (size_t i = 0; i < texts.size(); ++i) all.push_back(head_text(model, texts[i]));
  return analyze(model, std::move(all), options);
}

}  // namespace bertie
