// Learning: gradients against differences of the loss, and what must not change them.
#include "model/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bertie/error.h"
#include "core/random.h"
#include "model/learning.h"
#include "model/weights.h"

namespace bertie {
namespace {

using test::distance, test::enlarge, test::gradients, test::norm;

Config small(const std::string& model_type) {
  Config c;
  c.model_type = model_type;
  c.layers = 2, c.hidden = 24, c.heads = 3, c.intermediate = 40, c.vocabulary = 50, c.positions = 20;
  c.dropout = c.attention_dropout = 0.1;
  c.labels = {"a", "b", "c"};
  if (model_type == "roberta") c.pad_id = 1, c.layer_norm_eps = 1e-5;
  if (model_type == "distilbert") c.types = 0;
  if (model_type == "albert") c.embedding = 10, c.groups = 1, c.activation = "gelu_new";
  if (model_type == "gpt2")
    c.types = 0, c.layer_norm_eps = 1e-5, c.activation = "gelu_new", c.pad_id = -1, c.bos_id = c.eos_id = 49;
  return c;
}

// Sequences of these lengths, random, with goals for heads.
struct Example {
  std::vector<int32_t> ids, types, offsets{0};
  std::map<Head, std::vector<int32_t>> rows, targets;
  std::vector<float> values;
  std::vector<Goal> goals;

  Example(const Config& c, const std::vector<Head>& heads, const std::vector<int32_t>& lengths,
          uint64_t seed = 5) {
    Random random(seed);
    for (int32_t n : lengths) {
      for (int32_t i = 0; i < n; ++i) {
        ids.push_back(int32_t(2 + random.below(uint32_t(c.vocabulary) - 2)));
        types.push_back(i > n / 2);
      }
      offsets.push_back(int32_t(ids.size()));
    }
    const auto tokens = int32_t(ids.size());
    for (Head head : heads) {
      auto& t = targets[head];
      auto& r = rows[head];
      if (head == Head::kNextSentence || head == Head::kClassify) {
        for (size_t s = 0; s < lengths.size(); ++s)
          t.push_back(int32_t(random.below(head == Head::kClassify ? 3 : 2)));
      } else if (head == Head::kAnswer) {
        for (int32_t n : lengths)
          for (int k = 0; k < 2; ++k) t.push_back(int32_t(random.below(uint32_t(n))));
      } else {
        for (int32_t row = 0; row < tokens; ++row)
          if (random.below(3) == 0) {
            r.push_back(row);
            t.push_back(int32_t(random.below(head == Head::kTag ? 3 : uint32_t(c.vocabulary))));
          }
      }
      const bool answer = head == Head::kAnswer;
      goals.push_back(
          {.head = head, .rows = r, .targets = t, .scale = (answer ? 2.0f : 1.0f) / float(t.size())});
    }
  }
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
  Lesson lesson(std::optional<uint64_t> seed = {}) const {
    return {.batch = batch(), .goals = goals, .dropout_seed = seed};
  }
};

struct Case {
  std::string type;
  std::vector<Head> heads;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.type; }

class Learners : public testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  using enum Head;
  std::vector<Case> all;
  for (const char* type : {"bert", "roberta", "distilbert", "albert"})
    for (Head head : {kMaskedLm, kClassify, kTag, kAnswer}) all.push_back({type, {head}});
  for (const char* type : {"bert", "albert"}) all.push_back({type, {kMaskedLm, kNextSentence}});
  for (Head head : {kCausalLm, kClassify, kTag}) all.push_back({"gpt2", {head}});
  return all;
}

TEST_P(Learners, GradientIsTheLosssSlope) {
  const Config config = small(GetParam().type);
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
    enlarge(*learner);
    test::expect_slope(*learner, Example(config, GetParam().heads, {9, 1, 14, 5}).lesson(seed));
  }
}

TEST_P(Learners, RecomputingGivesTheSameBits) {
  const Config config = small(GetParam().type);
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  const auto stored = make_learner(config, GetParam().heads, 1, {.threads = 1});
  const auto again = make_learner(config, GetParam().heads, 1, {.threads = 2, .recompute = true});
  enlarge(*stored), enlarge(*again);
  EXPECT_EQ(gradients(*stored, example.lesson(7)), gradients(*again, example.lesson(7)));
}

// A step's gradient does not depend on how it is cut: sequence by sequence, with dropout, it adds up to the
// same.
TEST_P(Learners, CutIntoSequencesTheGradientIsTheSame) {
  const Config config = small(GetParam().type);
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  const std::vector<float> whole = gradients(*learner, example.lesson(7));

  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  for (size_t s = 0; s + 1 < example.offsets.size(); ++s) {
    const int32_t first = example.offsets[s], n = example.offsets[s + 1] - first;
    const int32_t offsets[2] = {0, n};
    std::vector<Goal> goals = example.goals;
    std::vector<std::vector<int32_t>> rows(goals.size()), targets(goals.size());
    for (size_t i = 0; i < goals.size(); ++i) {
      const Goal& goal = example.goals[i];
      if (goal.rows.empty()) {
        const size_t each = goal.targets.size() / (example.offsets.size() - 1);
        targets[i].assign(goal.targets.begin() + s * each, goal.targets.begin() + (s + 1) * each);
      }
      for (size_t k = 0; k < goal.rows.size(); ++k)
        if (goal.rows[k] >= first && goal.rows[k] < first + n)
          rows[i].push_back(goal.rows[k] - first), targets[i].push_back(goal.targets[k]);
      if (!goal.rows.empty() && rows[i].empty()) rows[i].push_back(0), targets[i].push_back(-1);
      goals[i].rows = rows[i], goals[i].targets = targets[i];
    }
    std::vector<LossSum> sums(goals.size());
    learner->learn({.batch = {.ids = std::span(example.ids).subspan(size_t(first), size_t(n)),
                              .types = std::span(example.types).subspan(size_t(first), size_t(n)),
                              .offsets = offsets},
                    .goals = goals,
                    .dropout_seed = 7,
                    .first_sequence = uint32_t(s)},
                   sums);
  }
  EXPECT_LT(distance(whole, learner->gradients()), 1e-5 * norm(whole));
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.type;
  for (Head head : info.param.heads) name += std::to_string(int(head));
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, Learners, testing::ValuesIn(cases()), name_of_case);

TEST(Learner, TheHeadAtMaskedPlacesOnlyEqualsTheFullHead) {
  const Config config = small("bert");
  const std::vector<Head> heads{Head::kMaskedLm};
  const auto learner = make_learner(config, heads, 1, {.threads = 2});
  enlarge(*learner);
  const Example example(config, heads, {9, 1, 14, 5});
  const std::vector<float> sparse = gradients(*learner, example.lesson());
  std::vector<int32_t> targets(example.ids.size(), -1);
  const Goal& goal = example.goals[0];
  for (size_t i = 0; i < goal.rows.size(); ++i) targets[size_t(goal.rows[i])] = goal.targets[i];
  const Goal full[] = {{.head = Head::kMaskedLm, .targets = targets, .scale = goal.scale}};
  const std::vector<float> dense = gradients(*learner, {.batch = example.batch(), .goals = full});
  EXPECT_LT(distance(sparse, dense), 1e-6 * norm(sparse));
}

TEST(Learner, EvaluatingIsTheModelsOwnForward) {
  const Config config = small("bert");
  const std::vector<Head> heads{Head::kMaskedLm, Head::kNextSentence};
  const auto learner = make_learner(config, heads, 1, {.threads = 1});
  enlarge(*learner);
  const auto folder = std::filesystem::path(testing::TempDir()) / "bertie_learner_saved";
  learner->save(folder);
  const Model model = Model::load(folder);
  bertie::Run run(model, 1);
  const Example example(config, heads, {9, 4, 14, 5});
  std::vector<LossSum> sums(2);
  learner->evaluate(example.lesson(9), sums);  // the seed is not looked at
  for (size_t i = 0; i < 2; ++i) {
    const Goal& goal = example.goals[i];
    const Matrix<const float> z = run.forward(example.batch(), {.head = goal.head, .rows = goal.rows}).logits;
    double loss = 0;
    size_t right = 0;
    for (size_t r = 0; r < z.rows(); ++r) {
      double sum = 0;
      for (float v : z[r]) sum += std::exp(double(v));
      loss += std::log(sum) - double(z(r, size_t(goal.targets[r])));
      right += std::max_element(z[r].begin(), z[r].end()) - z[r].begin() == goal.targets[r];
    }
    EXPECT_NEAR(sums[i].loss, loss, 1e-5 * loss);
    EXPECT_EQ(sums[i].right, right);
    EXPECT_EQ(sums[i].count, z.rows());
  }
  const auto other = make_learner(config, heads, 2, {.threads = 1});
  EXPECT_TRUE(other->load(folder).empty());
  EXPECT_TRUE(
      std::equal(learner->parameters().begin(), learner->parameters().end(), other->parameters().begin()));
  std::filesystem::remove_all(folder);
}

TEST(Learner, ACheckpointWithoutAHeadLeavesTheHeadFresh) {
  const Config config = small("bert");
  const auto folder = std::filesystem::path(testing::TempDir()) / "bertie_learner_partial";
  make_learner(config, {Head::kMaskedLm}, 1, {.threads = 1})->save(folder);
  const auto learner = make_learner(config, {Head::kMaskedLm, Head::kNextSentence}, 2, {.threads = 1});
  EXPECT_EQ(learner->load(folder),
            (std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                      "cls.seq_relationship.weight", "cls.seq_relationship.bias"}));
  std::filesystem::remove_all(folder);
}

TEST(Learner, SaysWhatIsFinalFromTheEndOn) {
  const Config config = small("bert");
  const std::vector<Head> heads{Head::kMaskedLm, Head::kNextSentence};
  const auto learner = make_learner(config, heads, 1, {.threads = 1});
  const Example example(config, heads, {9, 1, 14, 5});
  const std::vector<float> final_gradients = gradients(*learner, example.lesson());
  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  std::vector<LossSum> sums(2);
  size_t last = learner->gradients().size(), calls = 0;
  learner->learn(example.lesson(), sums, [&](size_t first) {
    EXPECT_LT(first, last);
    last = first, ++calls;
    EXPECT_TRUE(std::equal(final_gradients.begin() + ptrdiff_t(first), final_gradients.end(),
                           learner->gradients().begin() + ptrdiff_t(first)));
  });
  EXPECT_EQ(last, 0u);
  EXPECT_EQ(calls, 3u);
}

TEST(Learner, SegmentsCoverEveryNumberOnce) {
  const auto learner = make_learner(small("bert"), {Head::kMaskedLm, Head::kNextSentence}, 1, {.threads = 1});
  size_t end = 0, decaying = 0;
  for (const Segment& s : learner->segments()) {
    EXPECT_GE(s.first, end) << s.name;
    end = s.first + s.count;
    decaying += s.decays;
    EXPECT_EQ(s.decays, s.name.ends_with(".weight") && s.name.find("LayerNorm") == std::string::npos)
        << s.name;
  }
  EXPECT_LE(end, learner->parameters().size());
  EXPECT_EQ(decaying,
            3u + 2 * 4 + 1 + 1 + 1);  // tables, layers' products, pooler, language model, next sentence
}

TEST(Learner, WhatDoesNotFitIsAnError) {
  const Config config = small("bert");
  const auto learner = make_learner(config, {Head::kMaskedLm}, 1, {.threads = 1});
  const Example example(config, {Head::kMaskedLm}, {5});
  std::vector<LossSum> sums(1);
  const int32_t target[] = {50}, row[] = {0}, far_row[] = {5}, fine[] = {3};
  const auto attempt = [&](const Goal& goal) {
    learner->learn({.batch = example.batch(), .goals = {&goal, 1}}, sums);
  };
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .rows = row, .targets = target}), Error);
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .rows = far_row, .targets = fine}), Error);
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .targets = fine}), Error);
  EXPECT_THROW(attempt({.head = Head::kTag, .rows = row, .targets = fine}), Error);
  EXPECT_NO_THROW(attempt({.head = Head::kMaskedLm, .rows = row, .targets = fine}));
}

}  // namespace
}  // namespace bertie
