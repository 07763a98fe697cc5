// Rollout, and gradient × attention against a network of plain loops in double whose attention weights can be
// changed one by one.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "bertie/error.h"
#include "bertie/explain.h"
#include "io/safetensors.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

std::filesystem::path golden(const std::string& name) {
  return test::source_dir() / "tests/golden/tasks" / name;
}

using Rows = std::vector<std::vector<double>>;

// BERT for masked tokens, written out. `change` may alter a layer's and head's weights before they are used.
class PlainBert {
 public:
  using Change = std::function<void(size_t layer, size_t head, Rows& weights)>;

  explicit PlainBert(const std::filesystem::path& folder)
      : config_(Config::load(folder)), files_(io::SafeTensors::open(folder)) {}

  double logit(const Encoding& e, size_t row, size_t id, const Change& change) const {
    const size_t n = e.size();
    Rows x(n);
    const auto word = tensor("bert.embeddings.word_embeddings.weight"),
               place = tensor("bert.embeddings.position_embeddings.weight"),
               type = tensor("bert.embeddings.token_type_embeddings.weight");
    const size_t c = config_.hidden;
    for (size_t t = 0; t < n; ++t) {
      x[t].resize(c);
      for (size_t i = 0; i < c; ++i)
        x[t][i] = word[size_t(e.ids[t]) * c + i] + place[t * c + i] + type[size_t(e.types[t]) * c + i];
    }
    norm(x, "bert.embeddings.LayerNorm");
    for (size_t l = 0; l < config_.layers; ++l) layer(x, l, change);
    Rows h{x[row]};
    h = linear(h, "cls.predictions.transform.dense");
    for (double& v : h[0]) v = gelu(v);
    norm(h, "cls.predictions.transform.LayerNorm");
    double z = tensor("cls.predictions.bias")[id];
    for (size_t i = 0; i < c; ++i) z += h[0][i] * word[id * c + i];
    return z;
  }

 private:
  static double gelu(double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }
  std::vector<double> tensor(const std::string& name) const {
    const io::TensorInfo* t = files_.find(name);
    if (!t) throw Error("no " + name);
    std::vector<float> numbers(t->elements());
    io::to_float(*t, 0, numbers);
    return {numbers.begin(), numbers.end()};
  }
  Rows linear(const Rows& x, const std::string& name) const {
    const auto w = tensor(name + ".weight"), b = tensor(name + ".bias");
    Rows y(x.size(), std::vector<double>(b.size()));
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t o = 0; o < b.size(); ++o) {
        y[t][o] = b[o];
        for (size_t i = 0; i < x[t].size(); ++i) y[t][o] += x[t][i] * w[o * x[t].size() + i];
      }
    return y;
  }
  void norm(Rows& x, const std::string& name) const {
    const auto gamma = tensor(name + ".weight"), beta = tensor(name + ".bias");
    for (auto& r : x) {
      double mean = 0, square = 0;
      for (double v : r) mean += v / double(r.size());
      for (double v : r) square += (v - mean) * (v - mean) / double(r.size());
      for (size_t i = 0; i < r.size(); ++i)
        r[i] = (r[i] - mean) / std::sqrt(square + config_.layer_norm_eps) * gamma[i] + beta[i];
    }
  }
  void layer(Rows& x, size_t l, const Change& change) const {
    const std::string at = "bert.encoder.layer." + std::to_string(l) + ".";
    const Rows q = linear(x, at + "attention.self.query"), k = linear(x, at + "attention.self.key"),
               v = linear(x, at + "attention.self.value");
    const size_t n = x.size(), d = config_.head_size();
    Rows context(n, std::vector<double>(config_.hidden));
    for (size_t h = 0; h < config_.heads; ++h) {
      Rows weights(n, std::vector<double>(n));
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) {
          double score = 0;
          for (size_t c = h * d; c < (h + 1) * d; ++c) score += q[i][c] * k[j][c];
          sum += weights[i][j] = std::exp(score / std::sqrt(double(d)));
        }
        for (double& w : weights[i]) w /= sum;
      }
      change(l, h, weights);
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j)
          for (size_t c = h * d; c < (h + 1) * d; ++c) context[i][c] += weights[i][j] * v[j][c];
    }
    const Rows a = linear(context, at + "attention.output.dense");
    for (size_t t = 0; t < n; ++t)
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += a[t][i];
    norm(x, at + "attention.output.LayerNorm");
    Rows u = linear(x, at + "intermediate.dense");
    for (auto& r : u)
      for (double& value : r) value = gelu(value);
    const Rows f = linear(u, at + "output.dense");
    for (size_t t = 0; t < n; ++t)
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += f[t][i];
    norm(x, at + "output.LayerNorm");
  }

  Config config_;
  io::SafeTensors files_;
};

TEST(AttentionGradient, IsWhatASingleWeightDoesToTheLogit) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 2});
  const PlainBert plain(golden("fill-mask-bert"));
  const std::string text = "Anna came to the [MASK] harbour, and [MASK] was old.";
  const Encoding e = model.tokenizer().encode(text);
  size_t row = 0;
  for (size_t t = 0, masks = 0; t < e.size(); ++t)
    if (e.ids[t] == model.tokenizer().mask_id() && masks++ == 1) row = t;
  const int32_t id = *model.tokenizer().id("the");
  const Prediction prediction{.name = "the", .mask = 1};
  const AttentionGradient whole = attention_gradient(model, text, prediction, {.times_weight = false});
  const AttentionGradient times = attention_gradient(model, text, prediction);
  const Attention weights = model.attend(text);
  EXPECT_EQ(whole.name, "the");
  const auto nothing = [](size_t, size_t, Rows&) {};
  EXPECT_NEAR(whole.logit, plain.logit(e, row, size_t(id), nothing), 1e-4);
  double largest = 0;
  for (size_t l = 0; l < weights.layers; ++l)
    for (size_t h = 0; h < weights.heads; ++h)
      for (const auto& [i, j] : {std::pair<size_t, size_t>{row, 2}, {0, 1}, {3, row}, {row, row}, {5, 7}}) {
        const auto moved = [&](double by) {
          return plain.logit(e, row, size_t(id), [&](size_t layer, size_t head, Rows& w) {
            if (layer == l && head == h) w[i][j] += by;
          });
        };
        const double slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        EXPECT_NEAR(whole.attention.at(l, h)(i, j), slope, 1e-4 * std::abs(slope) + 2e-5) << l << h << i << j;
        EXPECT_NEAR(times.attention.at(l, h)(i, j), slope * double(weights.at(l, h)(i, j)),
                    1e-4 * std::abs(slope) + 2e-5);
        largest = std::max(largest, std::abs(slope));
      }
  EXPECT_GT(largest, 0.01);  // there was something to be wrong about
}

TEST(AttentionGradient, TakesTheLikeliestWhereNothingIsNamed) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  const std::string text = "The [MASK] is old.";
  EXPECT_EQ(attention_gradient(model, text, {}).name, model.fill_mask(text, {.top = 1}).masks[0][0].token);
  const TextModel classifier = load(golden("text-classification-bert"), {.threads = 1});
  EXPECT_EQ(attention_gradient(classifier, "The harbour is old.", {.head = Head::kClassify}).name,
            classifier.classify("The harbour is old.").labels[0].label);
}

TEST(AttentionGradient, OfHeadsThatAreOffIsZeroAndOfSomeLayersTheSameAsOfAll) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1}).without({{0, 1}});
  const std::string text = "The [MASK] is old.";
  const AttentionGradient all = attention_gradient(model, text, {}),
                          one = attention_gradient(model, text, {}, {.layers = {1}});
  double off = 0, on = 0;
  const Matrix<const float> silent = all.attention.at(0, 1), loud = all.attention.at(0, 0);
  for (size_t i = 0; i < silent.rows() * silent.cols(); ++i)
    off += std::abs(silent.data()[i]), on += std::abs(loud.data()[i]);
  EXPECT_EQ(off, 0);
  EXPECT_GT(on, 0);
  EXPECT_EQ(one.attention.kept, (std::vector<size_t>{1}));
  for (size_t i = 0; i < silent.rows(); ++i)
    EXPECT_EQ(one.attention.at(1, 0)(i, 0), all.attention.at(1, 0)(i, 0));
}

TEST(AttentionGradient, OfWhatIsNotThereIsAnError) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  const auto refused = [&](const std::string& part, const std::string& text, const Prediction& prediction) {
    test::expect_error(part, [&] { attention_gradient(model, text, prediction); });
  };
  refused("no mask", "The harbour is old.", {});
  refused("there is no mask 2", "The [MASK] is old.", {.mask = 1});
  refused("cannot", "The harbour", {.head = Head::kClassify});
  const TextModel classifier = load(golden("text-classification-bert"), {.threads = 1});
  test::expect_error("no label", [&] {
    attention_gradient(classifier, "a", {.head = Head::kClassify, .name = "nonsense"});
  });
  test::expect_error("bf16", [&] {
    attention_gradient(load(golden("fill-mask-bert"), {.format = WeightFormat::kBFloat16}), "The [MASK].",
                       {});
  });
}

TEST(Rollout, IsTheProductOfHalvedMeansWrittenOut) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  const Attention a = model.attend("Anna came to the old harbour.");
  const size_t n = a.n();
  for (size_t layers : {size_t{1}, a.layers}) {
    Rows product(n, std::vector<double>(n));
    for (size_t i = 0; i < n; ++i) product[i][i] = 1;
    for (size_t l = 0; l < layers; ++l) {
      Rows next(n, std::vector<double>(n));
      for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k) {
          double mean = 0;
          for (size_t h = 0; h < a.heads; ++h) mean += double(a.at(l, h)(i, k)) / double(a.heads);
          const double step = 0.5 * mean + (i == k ? 0.5 : 0);
          for (size_t j = 0; j < n; ++j) next[i][j] += step * product[k][j];
        }
      product = next;
    }
    const Grid got = rollout(a, layers);
    for (size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (size_t j = 0; j < n; ++j) {
        EXPECT_NEAR(got(i, j), product[i][j], 1e-6);
        sum += double(got(i, j));
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
  EXPECT_EQ(rollout(a).values, rollout(a, a.layers).values);
  EXPECT_THROW(rollout(a, a.layers + 1), Error);
  EXPECT_THROW(rollout(model.attend("Anna", {.layers = {1}})), Error);  // layer 0 was not kept
}

TEST(HeadsOff, AreOffInEveryTaskAndHandlesShareTheRest) {
  for (const char* name : {"fill-mask-bert", "text-classification-roberta", "token-classification-distilbert",
                           "question-answering-bert", "text-generation-gpt2", "sentence-similarity-bert"}) {
    SCOPED_TRACE(name);
    const TextModel model = load(golden(name), {.threads = 1});
    const std::vector<WhichHead> off{{0, 0}};
    const TextModel less = model.without(off);
    EXPECT_EQ(less.heads_off(), off);
    EXPECT_TRUE(model.heads_off().empty());
    const auto vectors = [](const TextModel& m) {
      return m.token_vectors(std::vector<std::string>{"Anna came."})[0].values;
    };
    EXPECT_NE(vectors(less), vectors(model));
    EXPECT_EQ(vectors(less.with_threads(2)), vectors(less));
    EXPECT_EQ(vectors(less.with_max_length(20)), vectors(less));
    EXPECT_EQ(vectors(model.without({})), vectors(model));
    EXPECT_EQ(less.without({{0, 1}}).heads_off(), (std::vector<WhichHead>{{0, 0}, {0, 1}}));
    // The head that is off looks as before: what it gives is taken away behind it.
    EXPECT_EQ(less.attend("Anna came.").at(0, 0)(1, 1), model.attend("Anna came.").at(0, 0)(1, 1));
    EXPECT_THROW(model.without({{99, 0}}), Error);
  }
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  const AttentionSteps on = explain(model, "Anna came.", {.layer = 1, .head = 0}),
                       off = explain(model.without({{1, 1}}), "Anna came.", {.layer = 1, .head = 0});
  EXPECT_EQ(on.x.values, off.x.values);
  const size_t d = on.v.cols;
  EXPECT_NE(on.concatenated(0, d), 0);
  EXPECT_EQ(off.concatenated(0, d), 0);
  EXPECT_NE(on.result.values, off.result.values);
}

}  // namespace
}  // namespace bertie
