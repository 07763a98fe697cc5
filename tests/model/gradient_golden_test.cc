// The loss and the gradient of every tensor against Hugging Face transformers, which made
// tests/golden/gradients in fp64 (tools/make_gradient_goldens.py), for every family and head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bertie/error.h"
#include "model/learner.h"
#include "support/data.h"
#include "support/targets.h"
#include "support/tensors.h"

namespace bertie {
namespace {

constexpr double kOfATensor = 1e-4;  // relative L2
constexpr double kOfTheLoss = 1e-5;
// Key biases and an answer's bias change nothing: their gradient is 0 but for rounding, which is compared
// with the whole gradient.
constexpr double kVanishing = 1e-9, kOfTheWhole = 1e-6;

std::filesystem::path folder() { return test::source_dir() / "tests/golden/gradients"; }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (const std::string name = entry.path().stem().string(); !name.starts_with("adamw"))
      all.push_back(name);
  std::sort(all.begin(), all.end());
  return all;
}

// "xlm-roberta-masked-lm-0" has a masked LM head.
std::vector<Head> heads_of(const std::string& name) {
  static const std::map<std::string, std::vector<Head>> kHeads = {
      {"masked-lm", {Head::kMaskedLm}},
      {"next-sentence", {Head::kNextSentence}},
      {"pretraining", {Head::kMaskedLm, Head::kNextSentence}},
      {"sequence-classification", {Head::kClassify}},
      {"token-classification", {Head::kTag}},
      {"question-answering", {Head::kAnswer}},
      {"causal-lm", {Head::kCausalLm}},
      {"seq2seq", {Head::kCausalLm}},
  };
  for (const auto& [part, heads] : kHeads)
    if (name.find("-" + part + "-") != std::string::npos) return heads;
  throw Error("no head in " + name);
}

// A golden file's batch and terms.
struct Example {
  test::Expected expected;
  bool pairs;  // an encoder-decoder's
  std::vector<int32_t> ids, types, offsets, target_ids, target_offsets, rows, targets, labels;
  std::vector<float> values;
  std::vector<LossTerm> terms;

  explicit Example(const std::string& name)
      : expected(folder() / (name + ".safetensors")),
        pairs(expected.has("source.ids")),
        ids(ints(pairs ? "source.ids" : "ids")),
        types(ints("types")),
        offsets(ints(pairs ? "source.offsets" : "offsets")),
        target_ids(ints("target.ids")),
        target_offsets(ints("target.offsets")),
        rows(ints("rows")),
        targets(ints("targets")),
        labels(ints("labels")) {
    if (expected.has("values")) values = expected.floats("values");
    for (Head head : heads_of(name))
      if (head == Head::kNextSentence && !labels.empty())
        terms.push_back({.head = head, .targets = labels});
      else
        terms.push_back({.head = head, .rows = rows, .targets = targets, .values = values});
  }
  std::vector<int32_t> ints(const std::string& key) const {
    return expected.has(key) ? expected.ints(key) : std::vector<int32_t>();
  }
  TrainingBatch training() const {
    return {.batch = {.ids = ids, .types = types, .offsets = offsets},
            .target = {.ids = target_ids, .offsets = target_offsets},
            .terms = terms};
  }
  double loss(const std::vector<LossSum>& sums) const {
    double loss = 0;
    for (size_t i = 0; i < terms.size(); ++i) loss += double(terms[i].scale) * sums[i].loss;
    return loss;
  }
};

double norm(std::span<const float> x) {
  double sum = 0;
  for (float v : x) sum += double(v) * v;
  return std::sqrt(sum);
}

std::unique_ptr<Learner> learner_of(const std::string& name, const LearnerOptions& options) {
  const std::filesystem::path model = test::source_dir() / "tests/golden/families" / name;
  auto learner = TransformerConfig::describes(model)
                     ? make_learner(TransformerConfig::load(model), 1, options)
                     : make_learner(Config::load(model), heads_of(name), 1, options);
  EXPECT_EQ(learner->load(model), std::vector<std::string>()) << "the golden model has all tensors";
  return learner;
}

class GradientGolden : public testing::TestWithParam<std::string> {};

void expect_gradients(const Learner& learner, const test::Expected& expected) {
  double whole = 0;
  std::map<std::string, std::vector<float>> want;
  for (const TensorSpec& t : learner.gradient_tensors()) {
    const std::string key = "gradient." + t.name;
    ASSERT_TRUE(expected.has(key)) << t.name << " does not learn in transformers";
    ASSERT_EQ(expected.shape(key), t.shape) << t.name;
    want[t.name] = expected.floats(key);
    whole += std::pow(norm(want[t.name]), 2);
  }
  whole = std::sqrt(whole);
  for (const TensorSpec& t : learner.gradient_tensors()) {
    std::vector<float> difference(t.elements());
    read_back(t, 0, difference);
    for (size_t i = 0; i < difference.size(); ++i) difference[i] -= want[t.name][i];
    const double size = norm(want[t.name]);
    const double allowed = size > kVanishing * whole ? kOfATensor * size : kOfTheWhole * whole;
    EXPECT_LE(norm(difference), allowed) << t.name << ", whose norm is " << size << " of " << whole;
  }
}

// Each has the gradients that the other has.
void expect_all_learn(const Learner& learner, const std::string& name) {
  std::set<std::string> ours, theirs;
  for (const TensorSpec& t : learner.gradient_tensors()) ours.insert("gradient." + t.name);
  const io::SafeTensors file = io::SafeTensors::open(folder() / (name + ".safetensors"));
  for (const io::TensorInfo& t : file.tensors())
    if (t.name.starts_with("gradient.")) theirs.insert(t.name);
  EXPECT_EQ(ours, theirs);
}

TEST_P(GradientGolden, LossAndEveryGradientEqualTransformers) {
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute ? "layers computed again" : "layers kept");
    test::on_every_target([&] {
      Example example(GetParam());
      const auto learner = learner_of(GetParam(), {.threads = 2, .recompute = recompute});
      expect_all_learn(*learner, GetParam());
      const double want = example.expected.doubles("loss").at(0);

      std::vector<LossSum> sums(example.terms.size());
      learner->evaluate(example.training(), sums);
      for (size_t i = 0; i < sums.size(); ++i) example.terms[i].scale = 1.0f / float(sums[i].count);
      EXPECT_NEAR(example.loss(sums), want, kOfTheLoss * want);

      std::fill(sums.begin(), sums.end(), LossSum());
      std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
      learner->learn(example.training(), sums);
      EXPECT_NEAR(example.loss(sums), want, kOfTheLoss * want);
      expect_gradients(*learner, example.expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientGolden, testing::ValuesIn(names()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace bertie
