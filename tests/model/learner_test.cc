// Learning: gradients against differences of the loss, and what must not change them.
#include "model/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bertie/error.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "model/learning.h"
#include "model/weights.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

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

// Sequences of these lengths, random, with terms for heads.
struct Example {
  std::vector<int32_t> ids, types, offsets{0};
  std::map<Head, std::vector<int32_t>> rows, targets;
  std::vector<float> values;
  std::vector<LossTerm> terms;

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
      terms.push_back(
          {.head = head, .rows = r, .targets = t, .scale = (answer ? 2.0f : 1.0f) / float(t.size())});
    }
  }
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
  TrainingBatch training(std::optional<uint64_t> seed = {}) const {
    return {.batch = batch(), .terms = terms, .dropout_seed = seed};
  }
};

struct Case {
  std::string type;
  std::vector<Head> heads;
  void (*change)(Config&) = nullptr;
  std::string name = type;

  Config config() const {
    Config c = small(type);
    if (change) change(c);
    return c;
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Learners : public testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  using enum Head;
  std::vector<Case> all;
  for (const char* type : {"bert", "roberta", "distilbert", "albert"})
    for (Head head : {kMaskedLm, kClassify, kTag, kAnswer}) all.push_back({type, {head}});
  for (const char* type : {"bert", "albert"}) all.push_back({type, {kMaskedLm, kNextSentence}});
  for (Head head : {kCausalLm, kClassify, kTag}) all.push_back({"gpt2", {head}});
  const auto untied = [](Config& c) { c.tied = false; };
  all.push_back({"bert", {kMaskedLm}, untied, "untied_bert"});
  all.push_back({"gpt2", {kCausalLm}, untied, "untied_gpt2"});
  all.push_back({"albert", {kMaskedLm}, [](Config& c) { c.groups = c.inner_layers = 2; }, "groups_albert"});
  // Products of the head that need more room than its logits.
  all.push_back(
      {"bert", {kMaskedLm}, [](Config& c) { c.layers = 1, c.hidden = 192, c.vocabulary = 20; }, "wide_bert"});
  return all;
}

TEST_P(Learners, GradientIsTheLosssSlope) {
  const Config config = GetParam().config();
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
    enlarge(*learner);
    test::expect_slope(*learner, Example(config, GetParam().heads, {9, 1, 14, 5}).training(seed));
  }
}

// Inference's kernels and learning's give the same bits: one stack, of which learning keeps more.
TEST_P(Learners, EvaluatingSeesTheLossThatLearningSees) {
  const Config config = GetParam().config();
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  std::vector<LossSum> learned(example.terms.size()), evaluated(learned);
  learner->learn(example.training(), learned);
  learner->evaluate(example.training(), evaluated);
  for (size_t i = 0; i < learned.size(); ++i) EXPECT_EQ(learned[i].loss, evaluated[i].loss);
}

// What a head does not read need not be computed, and nothing else changes by that.
TEST_P(Learners, LogitsAreTheSameBitsWithoutTheLastHiddenStates) {
  const Config config = GetParam().config();
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  const Example example(config, GetParam().heads, {9, 1, 0, 14, 5});
  const Model model = learner->view();
  bertie::Run run(model, 2);
  for (const LossTerm& term : example.terms) {
    std::vector<std::vector<float>> logits;
    for (const bool last_hidden : {true, false}) {
      const Output& out =
          run.forward(example.batch(), {.last_hidden = last_hidden, .head = term.head, .rows = term.rows});
      logits.emplace_back();
      for (size_t r = 0; r < out.logits.rows(); ++r)
        logits.back().insert(logits.back().end(), out.logits[r].begin(), out.logits[r].end());
      const bool reads_all = term.head == Head::kAnswer || 2 * term.rows.size() > example.ids.size();
      EXPECT_EQ(out.last_hidden.rows(), last_hidden || reads_all ? example.ids.size() : 0u);
    }
    EXPECT_EQ(logits[0], logits[1]);
  }
}

// Rows of 1024 numbers, a page, lie a line further apart than they are long.
TEST(Learner, RowsOfWholePagesAreNoException) {
  for (const char* type : {"bert", "gpt2"}) {
    Config config = small(type);
    config.hidden = config.intermediate = 1024, config.heads = 4;
    const Head head = config.causal() ? Head::kCausalLm : Head::kMaskedLm;
    const Example example(config, {head}, {9, 1, 14, 5});
    std::vector<std::vector<float>> g;
    for (const bool recompute : {false, true}) {
      const auto learner = make_learner(config, {head}, 1, {.threads = 2, .recompute = recompute});
      g.push_back(gradients(*learner, example.training(7)));
      if (recompute) continue;
      std::vector<LossSum> learned(1), evaluated(1);
      learner->learn(example.training(), learned);
      learner->evaluate(example.training(), evaluated);
      EXPECT_EQ(learned[0].loss, evaluated[0].loss);
      const Model model = learner->view();
      bertie::Run fast(model, 2), exact(model, 2);  // by tiles; and with all weights
      const Matrix<const float> a = fast.forward(example.batch()).last_hidden,
                                b = exact.forward(example.batch(), {.all_attention = true}).last_hidden;
      for (size_t r = 0; r < a.rows(); ++r) EXPECT_LE(distance(a[r], b[r]), 1e-5 * norm(b[r]));
      const double size = norm(g[0]);
      const auto loss_at = [&](double step) {
        for (size_t i = 0; i < g[0].size(); ++i)
          learner->parameters()[i] += float(step / size * double(g[0][i]));
        return test::learn(*learner, example.training(7));
      };
      const double above = loss_at(4e-3), below = loss_at(-8e-3);
      EXPECT_NEAR((above - below) / 8e-3, size, 2e-3 * size) << type;
    }
    EXPECT_LE(distance(g[0], g[1]), 1e-6 * norm(g[0])) << type;
  }
}

// Products of bf16: each rounds by 2⁻⁹, so gradients point the same way. Evaluations are exact.
TEST(Learner, InBf16LearnsTheSame) {
  if (!kernels::has_bf16_products()) GTEST_SKIP() << "this machine has no products of bf16";
  for (const char* type : {"bert", "gpt2"}) {
    Config config = small(type);
    config.hidden = config.intermediate = 128, config.heads = 2;
    const Head head = config.causal() ? Head::kCausalLm : Head::kMaskedLm;
    const Example example(config, {head}, {9, 1, 14, 5});
    for (LearnerOptions how : {LearnerOptions{.threads = 2}, LearnerOptions{.threads = 2, .recompute = true},
                               LearnerOptions{.threads = 2, .frozen_layers = 2}}) {
      std::vector<std::vector<float>> g;
      std::vector<double> losses;
      for (const bool bf16 : {false, true}) {
        how.bf16 = bf16;
        const auto learner = make_learner(config, {head}, 1, how);
        g.push_back(gradients(*learner, example.training(7)));
        std::vector<LossSum> evaluated(1);
        learner->evaluate(example.training(), evaluated);
        losses.push_back(evaluated[0].loss);
      }
      EXPECT_LE(distance(g[0], g[1]), 0.01 * norm(g[0])) << type;
      EXPECT_GT(distance(g[0], g[1]), 1e-5 * norm(g[0])) << type;
      EXPECT_EQ(losses[0], losses[1]) << type;
    }
  }
}

TEST(Learner, GradientsOfSomeRowsAreThoseOfAll) {
  for (const char* type : {"bert", "gpt2"})
    for (const bool recompute : {false, true}) {
      const Config config = small(type);
      const std::vector<Head> heads{Head::kClassify, Head::kTag};
      const auto learner = make_learner(config, heads, 1, {.threads = 2, .recompute = recompute});
      enlarge(*learner);
      Example some(config, {Head::kClassify}, {9, 1, 14, 5}), all = some;
      // A term that reads all rows and says nothing of them.
      const std::vector<int32_t> none(all.ids.size(), -1);
      all.terms.push_back({.head = Head::kTag, .targets = none});
      all.terms[0].targets = all.targets[Head::kClassify], all.terms[0].rows = {};
      const std::vector<float> few = gradients(*learner, some.training(7)),
                               whole = gradients(*learner, all.training(7));
      EXPECT_LE(distance(few, whole), 1e-6 * norm(whole)) << type;
      EXPECT_GT(norm(whole), 1e-3);
    }
}

// A teacher's logits in place of targets.
TEST_P(Learners, GradientIsTheLosssSlopeWithATeacher) {
  const Config config = GetParam().config();
  Example example(config, GetParam().heads, {9, 2, 14, 5});
  std::vector<std::vector<float>> logits;
  for (LossTerm& term : example.terms) {
    const Head head = term.head;
    const size_t tokens = example.ids.size();
    const size_t rows = head == Head::kAnswer ? tokens : term.targets.size();
    const size_t classes = head == Head::kMaskedLm || head == Head::kCausalLm     ? config.vocabulary
                           : head == Head::kNextSentence || head == Head::kAnswer ? 2
                                                                                  : config.labels.size();
    Random random(17);
    logits.emplace_back(rows * classes);
    for (float& x : logits.back()) x = 2 * random.normal();
    term.targets = {}, term.teacher = {logits.back().data(), rows, classes}, term.temperature = 2;
  }
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  test::expect_slope(*learner, example.training(7));
}

// What a teacher says where a language model of its own reads the same tokens.
struct TaughtExample {
  Model teacher;
  Run run;
  Matrix<const float> hidden, logits;

  TaughtExample(const Config& config, Head head, const Batch& batch)
      : teacher(Model::random(config, 23, {head})), run(teacher, 1) {
    const Output& out = run.forward(batch, {.head = head});
    hidden = out.last_hidden, logits = out.logits;
  }
};

// From its hidden states a teacher's logits are computed where they are needed: the same loss and slope.
TEST(Learner, ATeachersHiddenStatesStandForItsLogits) {
  for (const Case& one : cases()) {
    const Config config = one.config();
    const Head head = one.heads[0];
    if (head != Head::kMaskedLm && head != Head::kCausalLm) continue;
    SCOPED_TRACE(one.name);
    Example example(config, {head}, {9, 2, 14, 5});
    const TaughtExample taught(config, head, example.batch());
    std::vector<float> logits;
    for (const int32_t row : example.rows[head])
      logits.insert(logits.end(), taught.logits[size_t(row)].begin(), taught.logits[size_t(row)].end());
    LossTerm& term = example.terms[0];
    const size_t rows = term.rows.size();
    term.targets = {}, term.temperature = 2;

    const auto learner = make_learner(config, {head}, 1, {.threads = 2});
    enlarge(*learner);
    term.teacher = {logits.data(), rows, config.vocabulary};
    const std::vector<float> expected = gradients(*learner, example.training(7));
    const double loss = test::learn(*learner, example.training(7));
    term.teacher = {}, term.teacher_hidden = taught.hidden, term.teacher_model = &taught.teacher;
    EXPECT_NEAR(test::learn(*learner, example.training(7)), loss, 1e-6 * loss);
    EXPECT_LE(distance(gradients(*learner, example.training(7)), expected), 1e-5 * norm(expected));
  }
}

TEST_P(Learners, GradientIsTheSlopeOfTheAngleToATeachersHiddenStates) {
  const Config config = GetParam().config();
  Example example(config, GetParam().heads, {9, 2, 14, 5});
  std::vector<float> hidden(example.ids.size() * config.hidden);
  Random random(29);
  for (float& x : hidden) x = random.normal();
  example.terms = {{.head = GetParam().heads[0],
                    .teacher_hidden = {hidden.data(), example.ids.size(), config.hidden},
                    .scale = 1.0f / float(example.ids.size())}};
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  test::expect_slope(*learner, example.training(7));
}

TEST(Learner, TheAngleToItsOwnHiddenStatesIsNone) {
  const Config config = small("bert");
  Example example(config, {Head::kMaskedLm}, {9, 2});
  const auto learner = make_learner(config, {Head::kMaskedLm}, 1, {.threads = 1});
  const Model self = learner->view();
  bertie::Run run(self, 1);
  const Matrix<const float> hidden = run.forward(example.batch()).last_hidden;
  const LossTerm term{.head = Head::kMaskedLm, .teacher_hidden = hidden};
  LossSum sum;
  learner->evaluate({.batch = example.batch(), .terms = {&term, 1}}, {&sum, 1});
  EXPECT_NEAR(sum.loss, 0, 1e-9);
  EXPECT_EQ(sum.count, example.ids.size());
}

// More logits than are held at once: the same as in two batches.
TEST(Learner, ATeachersLogitsGoInBlocks) {
  Config config = small("bert");
  config.layers = 1, config.vocabulary = 40'000;
  const std::vector<int32_t> lengths(28, 16);  // 448 rows of 40,000 logits are more than 2²⁴
  Example example(config, {Head::kMaskedLm}, lengths);
  const TaughtExample taught(config, Head::kMaskedLm, example.batch());
  const LossTerm all{
      .head = Head::kMaskedLm, .teacher_hidden = taught.hidden, .teacher_model = &taught.teacher};
  const auto learner = make_learner(config, {Head::kMaskedLm}, 1, {.threads = 2});
  enlarge(*learner);
  const std::vector<float> whole = gradients(*learner, {.batch = example.batch(), .terms = {&all, 1}});

  std::vector<int32_t> halves[2];
  for (int32_t t = 0; t < int32_t(example.ids.size()); ++t) halves[t % 2].push_back(t);
  std::vector<LossTerm> two(2, all);
  two[0].rows = halves[0], two[1].rows = halves[1];
  const std::vector<float> parts = gradients(*learner, {.batch = example.batch(), .terms = two});
  EXPECT_LE(distance(whole, parts), 1e-5 * norm(whole));
}

TEST(Learner, ATeachersHiddenStatesMustFit) {
  const Config config = small("bert");
  Example example(config, {Head::kMaskedLm}, {9, 2});
  const auto learner = make_learner(config, {Head::kMaskedLm}, 1, {.threads = 1});
  const std::vector<float> numbers(example.ids.size() * config.hidden);
  Config other = config;
  other.vocabulary = 60;
  const Model stranger = Model::random(other, 1, {Head::kMaskedLm}), headless = Model::random(config, 1);
  const auto expect_refused = [&](const LossTerm& term, const std::string& why) {
    LossSum sum;
    test::expect_error(why, [&] {
      learner->learn({.batch = example.batch(), .terms = {&term, 1}}, {&sum, 1});
    });
  };
  const Matrix<const float> fits(numbers.data(), example.ids.size(), config.hidden);
  expect_refused({.head = Head::kMaskedLm, .teacher_hidden = fits.slice_rows(0, 3)}, "3 for 11 tokens");
  expect_refused({.head = Head::kMaskedLm, .teacher_hidden = {numbers.data(), example.ids.size(), 5}},
                 "5 numbers each");
  expect_refused({.head = Head::kMaskedLm, .teacher_hidden = fits, .teacher_model = &stranger}, "vocabulary");
  expect_refused({.head = Head::kMaskedLm, .teacher_hidden = fits, .teacher_model = &headless}, "same head");
  expect_refused(
      {.head = Head::kMaskedLm, .targets = example.targets[Head::kMaskedLm], .teacher_hidden = fits},
      "one of them");
}

// A student begins with some of its teacher's layers, whatever they are called.
TEST_P(Learners, TakesLayersOfALargerModel) {
  Config config = GetParam().config();
  config.layers = 5;
  const auto teacher = make_learner(config, GetParam().heads, 1, {.threads = 1});
  enlarge(*teacher);
  const test::TempFolder folder;
  teacher->save(folder.path());
  config.layers = 2;
  const auto student = make_learner(config, GetParam().heads, 2, {.threads = 1});
  EXPECT_TRUE(student->load(folder.path(), {.layers = {1, 4}}).empty());

  const auto numbers = [](Learner& learner, const std::string& name) {
    for (const TensorSpec& t : learner.tensors())
      if (t.name == name) {
        std::vector<float> out(t.elements());
        read_back(t, 0, out);
        return out;
      }
    ADD_FAILURE() << "no " << name;
    return std::vector<float>();
  };
  for (const TensorSpec& t : student->tensors()) {
    std::string name = t.name;
    if (config.model_type != "albert")
      for (const auto& [mine, its] : {std::pair(".1.", ".4."), std::pair(".0.", ".1.")})
        if (const size_t at = name.find(mine); at != name.npos) {
          name.replace(at, 3, its);
          break;
        }
    EXPECT_EQ(numbers(*student, t.name), numbers(*teacher, name)) << t.name << " from " << name;
  }
}

TEST_P(Learners, RecomputingGivesTheSameBits) {
  const Config config = GetParam().config();
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  const auto stored = make_learner(config, GetParam().heads, 1, {.threads = 1});
  const auto again = make_learner(config, GetParam().heads, 1, {.threads = 2, .recompute = true});
  enlarge(*stored), enlarge(*again);
  EXPECT_EQ(gradients(*stored, example.training(7)), gradients(*again, example.training(7)));
}

// A step's gradient does not depend on how it is cut: sequence by sequence, with dropout, it adds up to the
// same.
TEST_P(Learners, CutIntoSequencesTheGradientIsTheSame) {
  const Config config = GetParam().config();
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  const std::vector<float> whole = gradients(*learner, example.training(7));

  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  for (size_t s = 0; s + 1 < example.offsets.size(); ++s) {
    const int32_t first = example.offsets[s], n = example.offsets[s + 1] - first;
    const int32_t offsets[2] = {0, n};
    std::vector<LossTerm> terms = example.terms;
    std::vector<std::vector<int32_t>> rows(terms.size()), targets(terms.size());
    for (size_t i = 0; i < terms.size(); ++i) {
      const LossTerm& term = example.terms[i];
      if (term.rows.empty()) {
        const size_t each = term.targets.size() / (example.offsets.size() - 1);
        targets[i].assign(term.targets.begin() + s * each, term.targets.begin() + (s + 1) * each);
      }
      for (size_t k = 0; k < term.rows.size(); ++k)
        if (term.rows[k] >= first && term.rows[k] < first + n)
          rows[i].push_back(term.rows[k] - first), targets[i].push_back(term.targets[k]);
      if (!term.rows.empty() && rows[i].empty()) rows[i].push_back(0), targets[i].push_back(-1);
      terms[i].rows = rows[i], terms[i].targets = targets[i];
    }
    std::vector<LossSum> sums(terms.size());
    learner->learn({.batch = {.ids = std::span(example.ids).subspan(size_t(first), size_t(n)),
                              .types = std::span(example.types).subspan(size_t(first), size_t(n)),
                              .offsets = offsets},
                    .terms = terms,
                    .dropout_seed = 7,
                    .first_sequence = uint32_t(s)},
                   sums);
  }
  EXPECT_LT(distance(whole, learner->gradients()), 1e-5 * norm(whole));
}

TEST_P(Learners, TheNumberOfThreadsDoesNotChangeABit) {
  Config config = GetParam().config();
  config.positions = 80;
  const Example example(config, GetParam().heads, {70, 31, 64, 1, 59});
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    const auto learner = make_learner(config, GetParam().heads, 1, {.threads = threads});
    enlarge(*learner);
    const std::vector<float> g = gradients(*learner, example.training(7));
    if (first.empty()) first = g;
    EXPECT_EQ(g, first) << threads;
  }
}

TEST_P(Learners, SayFromTheEndOnWhatIsFinal) {
  const Config config = GetParam().config();
  const auto learner = make_learner(config, GetParam().heads, 1, {.threads = 1});
  const Example example(config, GetParam().heads, {9, 1, 14, 5});
  const std::vector<float> finally = gradients(*learner, example.training());
  std::fill(learner->gradients().begin(), learner->gradients().end(), 0.0f);
  std::vector<LossSum> sums(GetParam().heads.size());
  size_t last = learner->gradients().size(), calls = 0;
  learner->learn(example.training(), sums, [&](size_t from) {
    EXPECT_LT(from, last);
    last = from, ++calls;
    EXPECT_TRUE(std::equal(finally.begin() + ptrdiff_t(from), finally.end(),
                           learner->gradients().begin() + ptrdiff_t(from)));
  });
  EXPECT_EQ(last, 0u);
  EXPECT_EQ(calls, GetParam().name == "albert" ? 1 : config.depth() + 1);  // whose layers are shared
}

// What no segment covers, no optimizer sees: nothing may gather there.
TEST_P(Learners, NoGradientIsOutsideTheSegments) {
  const auto learner = make_learner(GetParam().config(), GetParam().heads, 1, {.threads = 2});
  enlarge(*learner);
  std::vector<float> g =
      gradients(*learner, Example(GetParam().config(), GetParam().heads, {9, 3}).training(7));
  for (const Segment& s : learner->segments()) std::fill_n(g.begin() + ptrdiff_t(s.first), s.count, 0.0f);
  EXPECT_EQ(norm(g), 0);
}

// Matrices normal with deviation 0.02, cut off at two of them (which leaves 0.88 of it); biases 0, norms 1.
TEST_P(Learners, FreshParametersAreAsBertsAuthorsDrewThem) {
  Config config = GetParam().config();
  config.labels = {"one"};
  config.types = std::min<size_t>(config.types, 1);
  const auto learner = make_learner(config, GetParam().heads, 3, {.threads = 2});
  for (const TensorSpec& t : learner->tensors()) {
    std::vector<float> x(t.elements());
    read_back(t, 0, x);
    if (t.name.ends_with("bias")) {
      EXPECT_EQ(norm(x), 0) << t.name;
    } else if (t.shape.size() == 1) {
      EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](float v) { return v == 1; })) << t.name;
    } else {
      const bool less = t.name.ends_with("c_proj.weight");
      const double cut = less ? 0.04 / std::sqrt(2.0 * double(config.layers)) : 0.04, n = double(x.size());
      double sum = 0, most = 0;
      for (float v : x) sum += v, most = std::max(most, std::abs(double(v)));
      EXPECT_LE(most, cut * 1.0001) << t.name;
      EXPECT_NEAR(norm(x) / std::sqrt(n), 0.44 * cut, 4 * 0.44 * cut * 0.6 / std::sqrt(n)) << t.name;
      EXPECT_NEAR(sum / n, 0, 4 * 0.44 * cut / std::sqrt(n)) << t.name;
    }
  }
  for (const Segment& s : learner->segments())
    EXPECT_EQ(s.decays, s.name.ends_with(".weight") && s.count > 1 && !s.name.ends_with("Norm.weight") &&
                            !s.name.ends_with("_norm.weight") && s.name.find("ln_") == std::string::npos)
        << s.name;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (Head head : info.param.heads) name += std::to_string(int(head));
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, Learners, testing::ValuesIn(cases()), name_of_case);

// Class weights and label smoothing: the slope, and the formula on its own.
TEST(Learner, ClassWeightsAndSmoothingHaveTheLosssSlope) {
  const std::vector<float> weights{0.5f, 2, 1.25f};
  for (const Head head : {Head::kClassify, Head::kTag}) {
    const Config config = small("bert");
    Example example(config, {head}, {9, 1, 14, 5});
    example.terms[0].class_weights = weights, example.terms[0].smoothing = 0.2f;
    const auto learner = make_learner(config, {head}, 1, {.threads = 2});
    enlarge(*learner);
    test::expect_slope(*learner, example.training(7));

    const Model model = learner->view();
    bertie::Run run(model, 1);
    const LossTerm& term = example.terms[0];
    const Matrix<const float> z = run.forward(example.batch(), {.head = head, .rows = term.rows}).logits;
    std::vector<LossSum> sums(1);
    learner->evaluate(example.training(), sums);
    double loss = 0;
    for (size_t r = 0; r < z.rows(); ++r) {
      double sum = 0, smooth = 0;
      for (float v : z[r]) sum += std::exp(double(v));
      for (float v : z[r]) smooth += 0.2 / 3 * (std::log(sum) - double(v));
      const auto target = size_t(term.targets[r]);
      loss += double(weights[target]) * (smooth + 0.8 * (std::log(sum) - double(z(r, target))));
    }
    EXPECT_NEAR(sums[0].loss, loss, 1e-5 * loss);
    EXPECT_EQ(sums[0].count, z.rows());
  }
}

TEST(Learner, ClassWeightsAreForClassesOnly) {
  const Config config = small("bert");
  const std::vector<float> two{1, 1};
  std::vector<LossSum> sums(1);
  Example answer(config, {Head::kAnswer}, {9});
  answer.terms[0].smoothing = 0.1f;
  const auto answerer = make_learner(config, {Head::kAnswer}, 1, {.threads = 1});
  test::expect_error("are for classes", [&] { answerer->learn(answer.training(), sums); });
  Example classes(config, {Head::kClassify}, {9});
  classes.terms[0].class_weights = two;
  const auto classifier = make_learner(config, {Head::kClassify}, 1, {.threads = 1});
  test::expect_error("2 class weights for 3 classes", [&] { classifier->learn(classes.training(), sums); });
}

// What is frozen has no gradient and drops nothing; what is above it learns as if the states below were
// given.
TEST(Learner, FrozenLayersStayAndTheOthersHaveTheLosssSlope) {
  for (const char* type : {"bert", "roberta", "distilbert", "gpt2"})
    for (const bool recompute : {false, true})
      for (const size_t frozen : {size_t{0}, size_t{1}, size_t{2}}) {
        SCOPED_TRACE(std::string(type) + " " + std::to_string(frozen));
        const Config config = small(type);
        const std::vector<Head> heads{Head::kClassify};
        const Example example(config, heads, {9, 1, 14, 5});
        const auto learner =
            make_learner(config, heads, 1, {.threads = 2, .recompute = recompute, .frozen_layers = frozen});
        const auto all = make_learner(config, heads, 1, {.threads = 2});
        enlarge(*learner), enlarge(*all);
        const std::vector<float> some = gradients(*learner, example.training());
        const std::vector<float> whole = gradients(*all, example.training());
        size_t learned = 0;
        for (const Segment& s : learner->segments()) {
          const auto part = std::span(some).subspan(s.first, s.count);
          if (s.rate == 0) {
            EXPECT_EQ(norm(part), 0) << s.name;
          } else {
            EXPECT_TRUE(std::ranges::equal(part, std::span(whole).subspan(s.first, s.count))) << s.name;
            ++learned;
          }
        }
        EXPECT_GT(learned, 0u);
        EXPECT_LT(learned, learner->segments().size());
        // With dropout, a frozen stack gives the same states each time: only what is above draws.
        if (frozen == config.layers) {
          std::vector<LossSum> a(1), b(1);
          learner->learn(example.training(7), a), learner->learn(example.training(7), b);
          EXPECT_EQ(a[0].loss, b[0].loss);
        }
      }
}

TEST(Learner, RatesFallFromHeadsToEmbeddings) {
  const Config config = small("bert");
  const auto learner = make_learner(config, {Head::kClassify}, 1, {.threads = 1, .layer_decay = 0.5});
  for (const Segment& s : learner->segments()) {
    double rate = 1;
    if (s.name.find("layer.1.") != std::string::npos) rate = 0.5;
    if (s.name.find("layer.0.") != std::string::npos) rate = 0.25;
    if (s.name.find("embeddings") != std::string::npos) rate = 0.125;
    EXPECT_EQ(s.rate, rate) << s.name;
  }
  test::expect_error("more than the model's 2 layers",
                     [&] { make_learner(config, {Head::kClassify}, 1, {.threads = 1, .frozen_layers = 3}); });
  test::expect_error("share their weights", [&] {
    make_learner(small("albert"), {Head::kClassify}, 1, {.threads = 1, .frozen_layers = 1});
  });
}

// A view is the parameters themselves: what a step changes, it shows.
TEST(Learner, AViewShowsWhatWasLearned) {
  const Config config = small("bert");
  const auto learner = make_learner(config, {Head::kClassify}, 1, {.threads = 1});
  const Example example(config, {Head::kClassify}, {9, 4});
  const Model view = learner->view();
  bertie::Run run(view, 1);
  const float before = run.forward(example.batch(), {.head = Head::kClassify}).logits(0, 0);
  for (float& p : learner->parameters()) p *= 1.25f;
  const float after = run.forward(example.batch(), {.head = Head::kClassify}).logits(0, 0);
  EXPECT_NE(before, after);
  const auto folder = std::filesystem::path(testing::TempDir()) / "bertie_learner_view";
  learner->save(folder);
  bertie::Run saved(Model::load(folder), 1);
  EXPECT_EQ(saved.forward(example.batch(), {.head = Head::kClassify}).logits(0, 0), after);
  std::filesystem::remove_all(folder);
}

TEST(Learner, TheHeadAtMaskedPlacesOnlyEqualsTheFullHead) {
  const Config config = small("bert");
  const std::vector<Head> heads{Head::kMaskedLm};
  const auto learner = make_learner(config, heads, 1, {.threads = 2});
  enlarge(*learner);
  const Example example(config, heads, {9, 1, 14, 5});
  const std::vector<float> sparse = gradients(*learner, example.training());
  std::vector<int32_t> targets(example.ids.size(), -1);
  const LossTerm& term = example.terms[0];
  for (size_t i = 0; i < term.rows.size(); ++i) targets[size_t(term.rows[i])] = term.targets[i];
  const LossTerm full[] = {{.head = Head::kMaskedLm, .targets = targets, .scale = term.scale}};
  const std::vector<float> dense = gradients(*learner, {.batch = example.batch(), .terms = full});
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
  learner->evaluate(example.training(9), sums);  // the seed is not looked at
  for (size_t i = 0; i < 2; ++i) {
    const LossTerm& term = example.terms[i];
    const Matrix<const float> z = run.forward(example.batch(), {.head = term.head, .rows = term.rows}).logits;
    double loss = 0;
    size_t right = 0;
    for (size_t r = 0; r < z.rows(); ++r) {
      double sum = 0;
      for (float v : z[r]) sum += std::exp(double(v));
      loss += std::log(sum) - double(z(r, size_t(term.targets[r])));
      right += std::max_element(z[r].begin(), z[r].end()) - z[r].begin() == term.targets[r];
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

TEST(Learner, AHeadThatTheFamilyDoesNotHaveIsAnError) {
  for (const char* type : {"roberta", "distilbert", "gpt2"})
    EXPECT_THROW(make_learner(small(type), {Head::kNextSentence}, 1, {.threads = 1}), Error) << type;
  EXPECT_THROW(make_learner(small("gpt2"), {Head::kMaskedLm}, 1, {.threads = 1}), Error);
  EXPECT_THROW(make_learner(small("bert"), {Head::kCausalLm}, 1, {.threads = 1}), Error);
}

TEST(Learner, EmptySequencesTeachNothing) {
  const Config config = small("bert");
  const std::vector<Head> heads{Head::kMaskedLm, Head::kNextSentence};
  const auto learner = make_learner(config, heads, 1, {.threads = 2});
  enlarge(*learner);
  Example example(config, heads, {9, 1, 14, 5});
  const std::vector<float> without = gradients(*learner, example.training());
  example.offsets.insert(example.offsets.begin() + 2, example.offsets[2 - 1]);  // a second one, of no tokens
  auto& labels = example.targets[Head::kNextSentence];
  labels.insert(labels.begin() + 1, -1);
  example.terms[1].targets = labels;
  EXPECT_LT(distance(gradients(*learner, example.training()), without), 1e-6 * norm(without));
  labels[1] = 1;
  EXPECT_THROW(gradients(*learner, example.training()), Error);
}

// Dropout of nearly everything leaves nothing of what goes through it: each family drops where its authors
// do.
TEST(Learner, ClassifiersDropTheirInput) {
  for (const char* type : {"bert", "roberta", "distilbert", "albert"}) {
    Config config = small(type);
    config.dropout = config.attention_dropout = 0, config.classifier_dropout = 0.99;
    const auto learner = make_learner(config, {Head::kClassify}, 1, {.threads = 1});
    enlarge(*learner);
    const Example example(config, {Head::kClassify}, {9, 4});
    EXPECT_NE(gradients(*learner, example.training(7)), gradients(*learner, example.training())) << type;
  }
  Config config = small("albert");
  config.dropout = config.attention_dropout = 0, config.classifier_dropout = 0.5;
  const auto albert = make_learner(config, {Head::kNextSentence}, 1, {.threads = 1});
  const Example pairs(config, {Head::kNextSentence}, {9, 4});
  EXPECT_NE(gradients(*albert, pairs.training(7)), gradients(*albert, pairs.training()));
  config = small("bert");
  config.dropout = config.attention_dropout = 0, config.classifier_dropout = 0.5;
  const auto bert = make_learner(config, {Head::kNextSentence}, 1, {.threads = 1});
  EXPECT_EQ(gradients(*bert, pairs.training(7)), gradients(*bert, pairs.training()));
}

TEST(Learner, WhatDoesNotFitIsAnError) {
  const Config config = small("bert");
  const auto learner = make_learner(config, {Head::kMaskedLm}, 1, {.threads = 1});
  const Example example(config, {Head::kMaskedLm}, {5});
  std::vector<LossSum> sums(1);
  const int32_t target[] = {50}, row[] = {0}, far_row[] = {5}, fine[] = {3};
  const auto attempt = [&](const LossTerm& term) {
    learner->learn({.batch = example.batch(), .terms = {&term, 1}}, sums);
  };
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .rows = row, .targets = target}), Error);
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .rows = far_row, .targets = fine}), Error);
  EXPECT_THROW(attempt({.head = Head::kMaskedLm, .targets = fine}), Error);
  EXPECT_THROW(attempt({.head = Head::kTag, .rows = row, .targets = fine}), Error);
  EXPECT_NO_THROW(attempt({.head = Head::kMaskedLm, .rows = row, .targets = fine}));
}

}  // namespace
}  // namespace bertie
