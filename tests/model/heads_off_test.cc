// Heads that are switched off, that are pruned, and what single attention weights do to a prediction.
#include <gtest/gtest.h>

#include "bertie/error.h"
#include "bertie/model.h"
#include "kernels/matmul.h"
#include "model/access.h"
#include "model/gradient_run.h"
#include "model/learning.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/sentences.h"
#include "support/targets.h"
#include "support/temp_folder.h"
#include "support/tensors.h"

namespace bertie {
namespace {

using test::Packed;
using test::seen;
using test::Seen;
using test::Sentence;

const Config kSmall{
    .layers = 3, .hidden = 36, .heads = 3, .intermediate = 50, .vocabulary = 100, .positions = 64};
const std::vector<WhichHead> kOff{{0, 1}, {2, 0}, {2, 2}};

Config family(const std::string& type) {
  Config c = kSmall;
  c.model_type = type;
  if (type == "roberta") c.positions = 66, c.pad_id = 1;
  if (type == "distilbert" || type == "gpt2") c.types = 0;
  return c;
}

std::span<const float> flat(Matrix<const float> m) { return {m.data(), m.rows() * m.cols()}; }

std::vector<Sentence> sentences_for(const Config& config) {
  Random random(5);
  std::vector<Sentence> all;
  for (size_t n : {7, 1, 0, 33, 16}) all.push_back(test::random_sentence(random, n, config));
  return all;
}

// All that a pass says, of several sentences at once.
std::vector<Seen> all_seen(const Model& model, const std::vector<WhichHead>& off,
                           const std::vector<Sentence>& sentences) {
  bertie::Run run(model, 2);
  run.switch_off(off);
  const Packed packed(sentences, std::max<size_t>(model.config().types, 1));
  const Output& out = run.forward(
      packed.batch(), {.hidden_states = true, .pooled = model.has_pooler(), .all_attention = true});
  std::vector<Seen> results;
  for (size_t s = 0; s < sentences.size(); ++s) {
    Seen one;
    const auto first = size_t(packed.offsets[s]), n = size_t(packed.offsets[s + 1]) - first;
    one.last_hidden = test::copy_of(out.last_hidden.slice_rows(first, n));
    for (const auto& state : out.hidden_states)
      for (float x : test::copy_of(state.slice_rows(first, n))) one.states.push_back(x);
    for (size_t l = 0; l < model.config().depth(); ++l)
      for (size_t h : model.config().heads_of(l))
        for (float x : test::copy_of(out.attention(l, s, h))) one.attention.push_back(x);
    results.push_back(std::move(one));
  }
  return results;
}

// The columns of W^O that take what a head gives become zeros.
void clear_columns(const Model& model, WhichHead which) {
  const kernels::Linear& out = weights_of(model).layer(which.layer).attention_out;
  std::vector<float> numbers(out.outputs * out.inputs);
  const Matrix<float> w(numbers.data(), out.outputs, out.inputs);
  const size_t d = model.config().head_size();
  kernels::unpack_rows(out, 0, w);
  for (size_t r = 0; r < w.rows(); ++r) std::fill_n(w.row(r) + which.head * d, d, 0.0f);
  kernels::pack_rows(w, 0, out);
}

TEST(HeadsOff, GiveTheBitsOfAModelWhoseColumnsOfWOAreZero) {
  test::on_every_target([&] {
    for (const char* type : {"bert", "roberta", "distilbert", "gpt2"}) {
      SCOPED_TRACE(type);
      const Model model = Model::random(family(type), 3), cleared = Model::random(family(type), 3);
      for (const WhichHead& which : kOff) clear_columns(cleared, which);
      const auto sentences = sentences_for(model.config());
      const auto off = all_seen(model, kOff, sentences), zeros = all_seen(cleared, {}, sentences);
      const auto on = all_seen(model, {}, sentences);
      for (size_t s = 0; s < sentences.size(); ++s) {
        EXPECT_TRUE(test::same_bits(off[s], zeros[s])) << "sentence " << s;
        if (!sentences[s].empty()) {
          EXPECT_FALSE(test::same_bits(off[s], on[s]));
        }
      }
    }
  });
}

TEST(HeadsOff, OfLayersThatShareWeightsAreOffInTheLayerThatIsMeant) {
  Config config = family("albert");
  config.embedding = 12;
  const Model model = Model::random(config, 3), cleared = Model::random(config, 3);
  clear_columns(cleared, {0, 1});  // of all layers: they are one
  const auto sentences = sentences_for(config);
  const auto all_off = all_seen(model, {{0, 1}, {1, 1}, {2, 1}}, sentences);
  const auto zeros = all_seen(cleared, {}, sentences), one_off = all_seen(model, {{1, 1}}, sentences);
  EXPECT_TRUE(test::same_bits(all_off[0], zeros[0]));
  EXPECT_FALSE(test::same_bits(one_off[0], zeros[0]));
}

TEST(HeadsOff, AreTheSameBitsAloneAndInAnyBatchAndGoOnAgain) {
  const Model model = Model::random(kSmall, 3);
  const auto sentences = sentences_for(kSmall);
  const auto together = all_seen(model, kOff, sentences);
  for (size_t s = 0; s < sentences.size(); ++s)
    EXPECT_TRUE(test::same_bits(all_seen(model, kOff, {sentences[s]})[0], together[s]));
  bertie::Run run(model, 1);
  const Packed packed(sentences, 2);
  const auto before = test::copy_of(run.forward(packed.batch()).last_hidden);
  run.switch_off(kOff);
  const auto off = test::copy_of(run.forward(packed.batch()).last_hidden);
  run.switch_off({});
  EXPECT_TRUE(test::same_bits(before, test::copy_of(run.forward(packed.batch()).last_hidden)));
  EXPECT_FALSE(test::same_bits(before, off));
}

TEST(HeadsOff, AreOffBehindACacheToo) {
  const Model model = Model::random(family("gpt2"), 4, {Head::kCausalLm});
  Random random(6);
  const Sentence ids = test::random_sentence(random, 12, model.config());
  bertie::Run run(model, 1);
  run.switch_off(kOff);
  const std::vector<int32_t> offsets{0, 12}, first{0, 7}, rest{0, 5};
  const auto whole = test::copy_of(run.forward({.ids = ids, .offsets = offsets}).last_hidden);
  Cache cache(model);
  run.forward({.ids = std::span(ids).first(7), .offsets = first}, {}, cache);
  const auto later =
      test::copy_of(run.forward({.ids = std::span(ids).subspan(7), .offsets = rest}, {}, cache).last_hidden);
  EXPECT_TRUE(test::near(later, std::span(whole).subspan(7 * 36), 2e-5));
}

TEST(HeadsOff, ThatDoNotExistAreAnError) {
  bertie::Run run(Model::random(kSmall, 1), 1);
  for (const WhichHead which : {WhichHead{3, 0}, WhichHead{0, 3}})
    EXPECT_THROW(run.switch_off(std::span(&which, 1)), Error);
}

TEST(PrunedHeads, ComputeWhatHeadsThatAreOffDo) {
  for (const char* type : {"bert", "roberta", "distilbert", "gpt2"}) {
    SCOPED_TRACE(type);
    const Model model = Model::random(family(type), 3), pruned = model.pruned(kOff);
    EXPECT_EQ(pruned.config().heads_of(2), (std::vector<size_t>{1}));
    EXPECT_EQ(model.parameters() - pruned.parameters(), 3 * (4 * 36 + 3) * 12);
    const auto sentences = sentences_for(model.config());
    const auto off = all_seen(model, kOff, sentences), less = all_seen(pruned, {}, sentences);
    for (size_t s = 0; s < sentences.size(); ++s)
      EXPECT_TRUE(test::same_bits(less[s].states, off[s].states)) << "sentence " << s;
    // Pruned again, or at once: the same.
    const auto twice =
        all_seen(model.pruned(std::span(kOff).first(2)).pruned(std::span(kOff).subspan(2)), {}, sentences);
    EXPECT_TRUE(test::same_bits(twice[3], less[3]));
  }
}

TEST(PrunedHeads, AreGoneFromTheFileAndComeBackFromIt) {
  for (const char* type : {"bert", "distilbert", "gpt2"}) {
    SCOPED_TRACE(type);
    const Model model = Model::random(family(type), 3), pruned = model.pruned(kOff);
    test::TempFolder folder, again;
    pruned.save(folder.path());
    const Model loaded = Model::load(folder.path(), {.strict = true});
    EXPECT_EQ(loaded.config().pruned_heads, (std::vector<std::vector<size_t>>{{1}, {}, {0, 2}}));
    const auto sentences = sentences_for(model.config());
    const auto before = all_seen(pruned, {}, sentences), after = all_seen(loaded, {}, sentences);
    for (size_t s = 0; s < sentences.size(); ++s) EXPECT_TRUE(test::same_bits(after[s], before[s]));
    // A head that is not there can be switched off, and looks at nothing.
    EXPECT_TRUE(test::same_bits(all_seen(loaded, {{0, 1}}, sentences)[0], after[0]));
    EXPECT_FALSE(test::same_bits(all_seen(loaded, {{0, 2}}, sentences)[0], after[0]));
    bertie::Run run(loaded, 1);
    const Packed packed(sentences, std::max<size_t>(loaded.config().types, 1));
    const Output& out = run.forward(packed.batch(), {.all_attention = true});
    EXPECT_NO_THROW(out.attention(2, 0, 1));
    EXPECT_THROW(out.attention(2, 0, 2), Error);
  }
}

TEST(PrunedHeads, LearnAndTheirGradientsAreSlopes) {
  Config config = kSmall;
  config.pruned_heads = {{1}, {}, {0, 2}};
  Random random(8);
  const Sentence a = test::random_sentence(random, 9, config), b = test::random_sentence(random, 5, config);
  const Packed packed(std::vector<Sentence>{a, b}, 2);
  const std::vector<int32_t> rows{1, 4, 8, 11}, targets{5, 17, 80, 3};
  const std::vector<LossTerm> terms{
      {.head = Head::kMaskedLm, .rows = rows, .targets = targets, .scale = 0.25f}};
  const TrainingBatch training{.batch = packed.batch(), .terms = terms, .dropout_seed = 7};
  const auto learner = make_learner(config, {Head::kMaskedLm}, 3, {.threads = 1});
  test::enlarge(*learner);
  test::expect_slope(*learner, training);
  const auto again = make_learner(config, {Head::kMaskedLm}, 3, {.threads = 2, .recompute = true});
  std::copy(learner->parameters().begin(), learner->parameters().end(), again->parameters().begin());
  EXPECT_TRUE(test::same_bits(test::gradients(*again, training), test::gradients(*learner, training)));
}

TEST(PrunedHeads, MustLeaveEachLayerOneAndWeightsOfItsOwn) {
  const Model model = Model::random(kSmall, 1);
  const std::vector<WhichHead> all{{1, 0}, {1, 1}, {1, 2}};
  EXPECT_THROW(model.pruned(all), Error);
  EXPECT_NO_THROW(model.pruned(std::span(all).first(2)));
  Config albert = family("albert");
  albert.embedding = 12;
  const Model shared = Model::random(albert, 1);
  EXPECT_THROW(shared.pruned(std::span(all).first(1)), Error);
  const WhichHead none{0, 3};
  EXPECT_THROW(model.pruned(std::span(&none, 1)), Error);
}

TEST(PrunedHeads, InAConfigThatMakesNoSenseAreAnError) {
  test::TempFolder folder;
  for (const char* bad : {"[]", "{\"0\": 1}", "{\"a\": [0]}", "{\"3\": [0]}", "{\"-1\": [0]}", "{\"0\": [3]}",
                          "{\"0\": [-1]}", "{\"0\": [0, 1, 2]}", "{\"0\": [1e99]}", "{\"0\": [\"1\"]}",
                          "{\"99999999999999999999\": [0]}", "7"}) {
    folder.write("config.json",
                 std::string("{\"model_type\": \"bert\", \"num_hidden_layers\": 3, "
                             "\"num_attention_heads\": 3, \"hidden_size\": 36, \"pruned_heads\": ") +
                     bad + "}");
    if (std::string(bad) == "[]") {
      EXPECT_TRUE(Config::load(folder.path()).pruned_heads.empty());
      continue;
    }
    EXPECT_THROW(Config::load(folder.path()), Error) << bad;
  }
}

// tests/golden/heads (tools/make_head_goldens.py), by transformers and PyTorch.
class HeadGolden : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path golden() const { return test::source_dir() / "tests/golden/heads" / GetParam(); }
  Model model() const {
    return Model::load(test::source_dir() / "tests/golden/families" /
                       std::filesystem::path(GetParam()).stem().string());
  }
};

TEST_P(HeadGolden, SwitchedOffGiveTransformersNumbers) {
  const test::Expected expected(golden());
  const std::vector<int32_t> ids = expected.ints("ids"), off = expected.ints("off");
  const std::vector<int32_t> types = expected.has("types") ? expected.ints("types") : std::vector<int32_t>();
  const std::vector<int32_t> offsets{0, int32_t(ids.size())};
  std::vector<WhichHead> heads;
  for (size_t i = 0; i < off.size(); i += 2) heads.push_back({size_t(off[i]), size_t(off[i + 1])});
  const Model m = model();
  bertie::Run run(m, 2);
  run.switch_off(heads);
  const Head head = m.has(Head::kMaskedLm) ? Head::kMaskedLm : Head::kClassify;
  const Output& out = run.forward({.ids = ids, .types = types, .offsets = offsets}, {.head = head});
  EXPECT_TRUE(test::near(flat(out.last_hidden), expected.floats("off.hidden"), 2e-5));
  EXPECT_TRUE(test::near(flat(out.logits), expected.floats("off.logits"), 2e-5));
}

TEST_P(HeadGolden, GradientsOfAttentionWeightsArePyTorchs) {
  const test::Expected expected(golden());
  const std::vector<int32_t> ids = expected.ints("ids"), target = expected.ints("target");
  const std::vector<int32_t> types = expected.has("types") ? expected.ints("types") : std::vector<int32_t>();
  const std::vector<int32_t> offsets{0, int32_t(ids.size())};
  const Model m = model();
  const size_t n = ids.size(), d = m.config().head_size(), depth = m.config().depth();
  GradientRun run(m, 2);
  const bool tokens = m.has(Head::kMaskedLm);
  const LossTerm term{.head = tokens ? Head::kMaskedLm : Head::kClassify,
                      .rows = std::span(target).first(tokens ? 1 : 0),
                      .targets = std::span(target).subspan(1),
                      .logits = true};
  size_t layers = 0;
  const auto see = [&](const GradientRun::Seen& seen) {
    const auto want = expected.floats("gradient." + std::to_string(seen.layer));
    std::vector<float> got;
    for (size_t h = 0; h < m.config().heads; ++h)
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (size_t c = 0; c < d; ++c)
            sum += double(seen.d_context(i, h * d + c)) * double(seen.values(j, h * d + c));
          got.push_back(float(sum));
        }
    EXPECT_TRUE(test::near(got, want, 5e-5)) << "layer " << seen.layer;
    ++layers;
  };
  const LossSum sum = run.run({.ids = ids, .types = types, .offsets = offsets}, term, see);
  EXPECT_NEAR(sum.loss, expected.doubles("logit")[0], 2e-5);
  EXPECT_EQ(layers, depth);
}

std::vector<std::string> head_goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "tests/golden/heads"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Models, HeadGolden, testing::ValuesIn(head_goldens()), [](const auto& p) {
  std::string name = std::filesystem::path(p.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// A loss, not a logit: the learner's way back and this one are the same.
TEST(GradientRun, OfALossTellsWhatSwitchingHeadsOffALittleDoes) {
  const Model model = Model::random(kSmall, 3, {Head::kMaskedLm});
  Random random(9);
  const Sentence ids = test::random_sentence(random, 14, kSmall);
  const Packed packed(std::vector<Sentence>{ids}, 2);
  const std::vector<int32_t> rows{2, 5, 9}, targets{11, 12, 13};
  const LossTerm term{.head = Head::kMaskedLm, .rows = rows, .targets = targets};
  // d loss / d ξ, ξ being what a head's output is multiplied by; 1 here.
  std::vector<double> slopes(9);
  GradientRun run(model, 1);
  const double loss = run.run(packed.batch(), term,
                              [&](const GradientRun::Seen& seen) {
                                for (size_t h = 0; h < 3; ++h)
                                  for (size_t t = 0; t < 14; ++t)
                                    for (size_t c = 0; c < 12; ++c)
                                      slopes[3 * seen.layer + h] += double(seen.context(t, 12 * h + c)) *
                                                                    double(seen.d_context(t, 12 * h + c));
                              })
                          .loss;
  const auto loss_of = [&](const Model& m) {
    GradientRun other(m, 1);
    return other.run(packed.batch(), term, [](const GradientRun::Seen&) {}).loss;
  };
  EXPECT_NEAR(loss_of(model), loss, 1e-6);
  for (const WhichHead which : {WhichHead{0, 1}, WhichHead{1, 0}, WhichHead{2, 2}}) {
    // ξ ± ε, by the columns of W^O.
    const auto scaled = [&](float by) {
      const Model other = Model::random(kSmall, 3, {Head::kMaskedLm});
      const kernels::Linear& out = weights_of(other).layer(which.layer).attention_out;
      std::vector<float> numbers(36 * 36);
      const Matrix<float> w(numbers.data(), 36, 36);
      kernels::unpack_rows(out, 0, w);
      for (size_t r = 0; r < 36; ++r)
        for (size_t c = 0; c < 12; ++c) w(r, which.head * 12 + c) *= by;
      kernels::pack_rows(w, 0, out);
      return loss_of(other);
    };
    const double measured = (scaled(1.25f) - scaled(0.75f)) / 0.5;
    EXPECT_NEAR(measured, slopes[3 * which.layer + which.head], 0.02 * std::abs(measured) + 2e-5)
        << which.layer << "-" << which.head;
  }
}

TEST(GradientRun, OfWeightsInBf16OrAnotherMechanismIsAnError) {
  EXPECT_THROW(GradientRun(Model::random(kSmall, 1, {}, WeightFormat::kBFloat16)), Error);
  Config config = kSmall;
  config.attention.compute = Compute::linear();
  EXPECT_THROW(GradientRun(Model::random(config, 1)), Error);
}

}  // namespace
}  // namespace bertie
