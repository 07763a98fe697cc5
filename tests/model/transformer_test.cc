// What must hold of any encoder-decoder: the same bits in any batch, step by step as all at once, where it
// looks, saving, and errors that name the thing.
#include "bertie/transformer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "model/spoiled.h"
#include "support/expect_error.h"
#include "support/sentences.h"
#include "support/targets.h"
#include "support/tensors.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_error;
using test::Packed;
using test::same_bits;
using test::Sentence;

using Ints = std::vector<int32_t>;

const TransformerConfig kSmall{.encoder_layers = 2,
                               .decoder_layers = 3,
                               .hidden = 36,
                               .encoder_heads = 3,
                               .decoder_heads = 2,
                               .encoder_ffn = 50,
                               .decoder_ffn = 41,
                               .vocabulary = 100,
                               .positions = 40};

Sentence sentence(Random& random, size_t length) {
  Sentence ids(length);
  for (int32_t& id : ids) id = int32_t(random.below(uint32_t(kSmall.vocabulary)));
  return ids;
}

// Everything that a run says about one pair.
struct Seen {
  std::vector<float> encoder, decoder, attention, cross, logits;
};

std::vector<Seen> run_pairs(TransformerRun& run, const std::vector<Sentence>& sources,
                            const std::vector<Sentence>& targets) {
  const Packed from(sources), to(targets);
  const TransformerOutput& read = run.encode(from.batch(), {.hidden_states = true, .attention = true});
  const TransformerOutput& written = run.decode(to.batch(), {.hidden_states = true, .attention = true});
  std::vector<Seen> result(sources.size());
  const auto append = [](std::vector<float>& numbers, Matrix<const float> m) {
    const std::vector<float> more = test::copy_of(m);
    numbers.insert(numbers.end(), more.begin(), more.end());
  };
  for (size_t s = 0; s < sources.size(); ++s) {
    Seen& seen = result[s];
    for (const auto& state : read.hidden_states)
      append(seen.encoder, state.slice_rows(size_t(from.offsets[s]), sources[s].size()));
    for (const auto& state : written.hidden_states)
      append(seen.decoder, state.slice_rows(size_t(to.offsets[s]), targets[s].size()));
    append(seen.logits, written.logits.slice_rows(size_t(to.offsets[s]), targets[s].size()));
    for (size_t l = 0; l < kSmall.encoder_layers; ++l)
      for (size_t h = 0; h < kSmall.encoder_heads; ++h) append(seen.attention, read.attention(l, s, h));
    for (size_t l = 0; l < kSmall.decoder_layers; ++l)
      for (size_t h = 0; h < kSmall.decoder_heads; ++h)
        append(seen.attention, written.attention(l, s, h)), append(seen.cross, written.cross(l, s, h));
  }
  return result;
}

testing::AssertionResult same(const Seen& a, const Seen& b) {
  for (auto [what, x, y] : {std::tuple("encoder", &a.encoder, &b.encoder),
                            {"decoder", &a.decoder, &b.decoder},
                            {"attention", &a.attention, &b.attention},
                            {"cross-attention", &a.cross, &b.cross},
                            {"logits", &a.logits, &b.logits}})
    if (auto result = same_bits(*x, *y); !result) return result << " in the " << what;
  return testing::AssertionSuccess();
}

TEST(Transformer, GivesTheSameBitsInAnyBatchAndWithAnyThreads) {
  test::on_every_target([&] {
    const Transformer model = Transformer::random(kSmall, 3);
    TransformerRun one(model, 1), two(model, 2);
    Random random(4);
    std::vector<Sentence> sources, targets;
    std::vector<Seen> alone;
    const size_t lengths[][2] = {{1, 1}, {3, 40}, {40, 2}, {15, 33}, {0, 4}, {6, 0}, {31, 14}};
    for (const auto& [n, m] : lengths) {
      sources.push_back(sentence(random, n)), targets.push_back(sentence(random, m));
      alone.push_back(run_pairs(one, {sources.back()}, {targets.back()}).front());
    }
    for (TransformerRun* run : {&one, &two}) {
      const std::vector<Seen> together = run_pairs(*run, sources, targets);
      for (size_t s = 0; s < sources.size(); ++s)
        EXPECT_TRUE(same(together[s], alone[s])) << s << ", " << run->threads() << " threads";
    }
  });
}

TEST(Transformer, GivesTheSameBitsInAnyCompanyAtAll) {
  TransformerRun run(Transformer::random(kSmall, 9), 1);
  Random fixed(1);
  const Sentence source = sentence(fixed, 11), target = sentence(fixed, 7);
  const Seen alone = run_pairs(run, {source}, {target}).front();
  EXPECT_TRUE(rc::check("a pair's result does not depend on its batch", [&] {
    Random random(*rc::gen::arbitrary<uint64_t>());
    const size_t before = random.below(4), after = random.below(4);
    std::vector<Sentence> sources, targets;
    const auto add = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) {
        sources.push_back(sentence(random, random.below(uint32_t(kSmall.positions + 1))));
        targets.push_back(sentence(random, random.below(uint32_t(kSmall.positions + 1))));
      }
    };
    add(before);
    sources.push_back(source), targets.push_back(target);
    add(after);
    RC_ASSERT(bool(same(run_pairs(run, sources, targets)[before], alone)));
  }));
}

TEST(Transformer, StepByStepIsTheSameAsAllAtOnce) {
  const Transformer model = Transformer::random(kSmall, 5);
  TransformerRun run(model, 2);
  Random random(6);
  const std::vector<Sentence> sources{sentence(random, 9), sentence(random, 1), sentence(random, 40)},
      targets{sentence(random, 12), sentence(random, 40), sentence(random, 1)};
  const Packed from(sources), to(targets);
  run.encode(from.batch());
  const std::vector<float> whole = test::copy_of(run.decode(to.batch()).logits);
  Cache cache(model, 3);
  const size_t steps[] = {1, 1, 5, 1, 12, 20};  // tokens of each sequence that has as many left
  size_t done = 0;
  for (size_t step : steps) {
    std::vector<Sentence> parts;
    for (const Sentence& t : targets)
      parts.emplace_back(t.begin() + ptrdiff_t(std::min(done, t.size())),
                         t.begin() + ptrdiff_t(std::min(done + step, t.size())));
    const Packed part(parts);
    const Matrix<const float> logits = run.decode(part.batch(), {}, cache).logits;
    for (size_t s = 0; s < 3; ++s)
      for (size_t t = 0; t < parts[s].size(); ++t)
        EXPECT_TRUE(test::near(logits[size_t(part.offsets[s]) + t],
                               std::span(whole).subspan(
                                   (size_t(to.offsets[s]) + done + t) * kSmall.vocabulary, kSmall.vocabulary),
                               1e-5))
            << "sequence " << s << ", token " << done + t;
    done += step;
  }
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(cache.length(s), targets[s].size());
}

TEST(Transformer, LooksBackInTheTargetAndEverywhereInTheSource) {
  TransformerRun run(Transformer::random(kSmall, 5), 1);
  const std::vector<Sentence> source{{3, 4, 5, 6}}, target{{1, 7, 8}};
  const Packed from(source), to(target);
  const TransformerOutput& read = run.encode(from.batch(), {.attention = true});
  const TransformerOutput& out = run.decode(to.batch(), {.attention = true});
  EXPECT_EQ(out.cross(2, 0, 1).rows(), 3u);
  EXPECT_EQ(out.cross(2, 0, 1).cols(), 4u);
  for (size_t q = 0; q < 3; ++q) {
    float sum = 0;
    for (float weight : out.cross(0, 0, 0)[q]) {
      EXPECT_GT(weight, 0);
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(out.attention(0, 0, 0)(q, k) > 0, k <= q);
  }
  for (size_t q = 0; q < 4; ++q)
    for (size_t k = 0; k < 4; ++k) EXPECT_GT(read.attention(1, 0, 2)(q, k), 0);
}

TEST(Transformer, GivesLogitsForChosenRowsOrNone) {
  TransformerRun run(Transformer::random(kSmall, 5), 1);
  const std::vector<Sentence> source{{3, 4}, {5}}, target{{1, 7, 8}, {1, 9}};
  const Packed from(source), to(target);
  run.encode(from.batch());
  const std::vector<float> every = test::copy_of(run.decode(to.batch()).logits);
  const Ints rows{4, 0, 2, 2};
  const Matrix<const float> some = run.decode(to.batch(), {.rows = rows}).logits;
  ASSERT_EQ(some.rows(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(same_bits(some[i], std::span(every).subspan(size_t(rows[i]) * 100, 100)));
  EXPECT_TRUE(run.decode(to.batch(), {.logits = false}).logits.empty());
}

TEST(Transformer, WritesTheLikeliestTokenEachTime) {
  // Against decoding all of it again for every token.
  const Transformer model = Transformer::random(kSmall, 8);
  TransformerRun run(model, 1);
  Random random(2);
  const std::vector<Sentence> source{sentence(random, 6), sentence(random, 13)};
  const Packed from(source);
  const auto texts = run.generate(from.batch(), 10);
  run.encode(from.batch());
  for (size_t s = 0; s < 2; ++s) {
    ASSERT_FALSE(texts[s].empty());
    EXPECT_TRUE(texts[s].size() == 10 || texts[s].back() == kSmall.eos_id);
    std::vector<Sentence> target(2);
    target[s] = {kSmall.start_id};
    target[s].insert(target[s].end(), texts[s].begin(), texts[s].end());
    const Matrix<const float> logits = run.decode(Packed(target).batch()).logits;
    for (size_t t = 0; t < texts[s].size(); ++t) {
      EXPECT_NE(texts[s][t], kSmall.pad_id);
      EXPECT_TRUE(texts[s][t] != kSmall.eos_id || t + 1 == texts[s].size());
      for (size_t id = 0; id < kSmall.vocabulary; ++id)
        if (int32_t(id) != kSmall.pad_id) {
          EXPECT_LE(logits(t, id), logits(t, size_t(texts[s][t])) + 1e-5f);
        }
    }
  }
  EXPECT_EQ(run.generate(from.batch(), 0), (std::vector<Ints>(2)));
  EXPECT_EQ(run.generate(Packed(std::vector<Sentence>{}).batch(), 5).size(), 0u);
}

TEST(Transformer, NeverWritesPaddingAndEndsAtTheEnd) {
  TransformerConfig config = kSmall;
  const std::vector<Sentence> source{{5, 6, 7}};
  const Packed from(source);
  const auto write = [&](int32_t pad, int32_t eos) {
    config.pad_id = pad, config.eos_id = eos;
    return TransformerRun(Transformer::random(config, 8), 1).generate(from.batch(), 6).at(0);
  };
  const Ints free = write(-1, -1);
  ASSERT_EQ(free.size(), 6u);
  EXPECT_NE(write(free[0], -1)[0], free[0]);
  EXPECT_EQ(write(-1, free[0]), Ints{free[0]});
}

std::string file_text(const std::filesystem::path& path) { return std::string(io::MappedFile(path).text()); }

TEST(Transformer, SavesWhatLoadsAndSavesAgainToTheByte) {
  const Transformer model = Transformer::random(kSmall, 2);
  for (Precision precision : {Precision::kFloat32, Precision::kFloat16, Precision::kBFloat16}) {
    const test::TempFolder first, second;
    model.save(first.path(), precision);
    const Transformer loaded = Transformer::load(first.path());
    EXPECT_EQ(loaded.parameters(), model.parameters());
    loaded.save(second.path(), precision);
    for (const char* name : {"config.json", "model.safetensors"})
      EXPECT_EQ(file_text(first.path() / name), file_text(second.path() / name)) << name;
    if (precision != Precision::kFloat32) continue;
    TransformerRun a(model, 1), b(loaded, 1);
    const std::vector<Sentence> source{{5, 6, 7}}, target{{1, 2}};
    EXPECT_TRUE(same(run_pairs(a, source, target)[0], run_pairs(b, source, target)[0]));
  }
}

TEST(Transformer, CountsItsNumbers) {
  // 37000 × 512 words and their biases; a layer's attention has 4·512·513 numbers, its feed-forward network
  // 2·512·2048 + 2048 + 512, each norm 1024; a decoder's layer has two attentions.
  const size_t attention = 4 * 512 * 513, ffn = 2 * 512 * 2048 + 2048 + 512, norm = 1024;
  EXPECT_EQ(TransformerConfig::base().parameters(),
            37000 * 513 + 6 * (attention + ffn + 2 * norm) + 6 * (2 * attention + ffn + 3 * norm));
  EXPECT_EQ(Transformer::random(kSmall).parameters(), kSmall.parameters());
}

TEST(TransformerErrors, OfRunsNameWhatIsWrong) {
  const Transformer model = Transformer::random(kSmall);
  TransformerRun run(model, 1);
  const Ints ids{5, 6}, offsets{0, 2}, wrong{5, 100}, negative{-1, 2}, split{0, 1, 2}, back{0, 2, 1, 2};
  const Ints longest(41, 1), long_offsets{0, 41}, row{2};
  const Batch good{.ids = ids, .offsets = offsets};
  expect_error("nothing to decode for", [&] { run.decode(good); });
  expect_error("token id 100 at 1 is outside the vocabulary of 100",
               [&] { run.encode({.ids = wrong, .offsets = offsets}); });
  expect_error("token id -1 at 0", [&] { run.encode({.ids = negative, .offsets = offsets}); });
  expect_error("sequence 0 has 41 tokens, but the model has positions for 40",
               [&] { run.encode({.ids = longest, .offsets = long_offsets}); });
  expect_error("offsets go back at sequence 1", [&] { run.encode({.ids = ids, .offsets = back}); });
  expect_error("nothing to decode for", [&] { run.decode(good); });
  run.encode(good);
  expect_error("token id 100", [&] { run.decode({.ids = wrong, .offsets = offsets}); });
  expect_error("41 tokens", [&] { run.decode({.ids = longest, .offsets = long_offsets}); });
  expect_error("offsets must go from 0", [&] { run.decode({.ids = ids, .offsets = {}}); });
  expect_error("2 targets for the 1 sources", [&] { run.decode({.ids = ids, .offsets = split}); });
  expect_error("no token 2 in a batch of 2", [&] { run.decode(good, {.rows = row}); });
  expect_error("41 new tokens, but the model has positions for 40", [&] { run.generate(good, 41); });
  Cache cache(model, 1), two(model, 2), other(Transformer::random({.hidden = 8, .vocabulary = 9}), 1);
  expect_error("attention weights cannot be captured", [&] { run.decode(good, {.attention = true}, cache); });
  expect_error("the cache has 2", [&] { run.decode(good, {}, two); });
  expect_error("another model", [&] { run.decode(good, {}, other); });
  const TransformerOutput& out = run.decode(good);
  expect_error("layer 0 was not kept", [&] { out.attention(0, 0, 0); });
  expect_error("layer 0 was not kept", [&] { out.cross(0, 0, 0); });
  EXPECT_EQ(cache.length(0), 0u) << "what was refused is not remembered";
  for (size_t i = 0; i < 20; ++i) run.decode(good, {}, cache);
  expect_error("sequence 0 has 42 tokens", [&] { run.decode(good, {}, cache); });
}

struct Checkpoint : test::Spoiled {
  Checkpoint() : Spoiled("families/marian-seq2seq-0") {}
  Transformer load() const { return Transformer::load(path()); }
};

TEST(TransformerErrors, AreNoneForTheCheckpointAsItIs) { EXPECT_NO_THROW(Checkpoint().load()); }

TEST(TransformerErrors, NameTheKeyOfConfigJson) {
  const std::pair<const char*, json> wrong[] = {{"d_model", 0},
                                                {"d_model", "16"},
                                                {"d_model", 15},
                                                {"encoder_layers", 0},
                                                {"decoder_layers", 1001},
                                                {"encoder_attention_heads", 3},
                                                {"decoder_attention_heads", 5},
                                                {"encoder_ffn_dim", -1},
                                                {"decoder_ffn_dim", 0},
                                                {"vocab_size", 0},
                                                {"decoder_vocab_size", 71},
                                                {"max_position_embeddings", 1 << 20},
                                                {"activation_function", "mish"},
                                                {"scale_embedding", 1},
                                                {"share_encoder_decoder_embeddings", false},
                                                {"tie_word_embeddings", false},
                                                {"pad_token_id", 70},
                                                {"eos_token_id", "no"},
                                                {"decoder_start_token_id", nullptr},
                                                {"dropout", 1},
                                                {"model_type", "bert"}};
  for (const auto& [key, value] : wrong) {
    Checkpoint c;
    c.config([&](json& j) { j[key] = value; });
    SCOPED_TRACE(key + value.dump());
    expect_error(key, [&] { c.load(); });
    expect_error("config.json", [&] { c.load(); });
  }
}

TEST(TransformerErrors, NameTheTensor) {
  const std::string query = "model.decoder.layers.1.encoder_attn.q_proj.weight";
  for (const std::string& name :
       {query, std::string("model.encoder.layers.0.fc1.bias"), std::string("model.shared.weight"),
        std::string("model.decoder.layers.0.encoder_attn_layer_norm.weight")}) {
    Checkpoint c;
    c.header([&](json& h) { test::rename(h, name, "other"); });
    expect_error(name.substr(6), [&] { c.load(); });
    expect_error("is missing", [&] { c.load(); });
  }
  Checkpoint shape, type, extra;
  shape.header([&](json& h) { h[query]["shape"] = {8, 32}; });
  expect_error(query + " has shape [8, 32] but config.json asks for [16, 16]", [&] { shape.load(); });
  type.header([&](json& h) { h[query]["dtype"] = "I32"; });
  expect_error(query + " is I32", [&] { type.load(); });
  extra.add("model.encoder.layer_norm.weight", {16}, std::vector<float>(16));
  expect_error("\"model.encoder.layer_norm.weight\" belongs to nothing",
               [&] { Transformer::load(extra.path(), {.strict = true}); });
  EXPECT_NO_THROW(extra.load());
  Checkpoint deeper;
  deeper.config([](json& j) { j["decoder_layers"] = 3; });
  expect_error("model.decoder.layers.2.self_attn.q_proj.weight is missing", [&] { deeper.load(); });
}

TEST(TransformerErrors, TellModelsOfOneSideFromThoseOfTwo) {
  const auto marian = test::source_dir() / "tests/golden/families/marian-seq2seq-0";
  const auto bert = test::source_dir() / "tests/golden/models/plain";
  expect_error("this is an encoder-decoder", [&] { Model::load(marian); });
  expect_error("model_type", [&] { Transformer::load(bert); });
  EXPECT_TRUE(TransformerConfig::describes(marian));
  EXPECT_FALSE(TransformerConfig::describes(bert));
  expect_error("no model at /no/such/model",
               [] { Transformer::load(std::filesystem::path("/no/such/model")); });
}

TEST(Transformer, ReadsOlderCheckpointsThatHoldPositionsAndCopies) {
  // The sinusoids as a loop: sin(p / 10000^(2i/C)) and then the cosines of the same angles.
  std::vector<float> positions;
  for (size_t p = 0; p < 20; ++p)
    for (size_t c = 0; c < 16; ++c) {
      const double angle = double(p) / std::pow(10000.0, double(c % 8) / 8);
      positions.push_back(float(c < 8 ? std::sin(angle) : std::cos(angle)));
    }
  Checkpoint good, learned, without;
  good.add("model.encoder.embed_positions.weight", {20, 16}, positions);
  EXPECT_NO_THROW(good.load());
  good.add("lm_head.weight", {70, 16}, std::vector<float>(70 * 16));
  EXPECT_NO_THROW(good.load());
  positions[37] += 0.1f;
  learned.add("model.decoder.embed_positions.weight", {20, 16}, positions);
  expect_error("model.decoder.embed_positions.weight is not the sinusoids", [&] { learned.load(); });
  // A model without biases of the logits is one whose biases are 0.
  without.header([](json& h) { test::rename(h, "final_logits_bias", "lm_head.weight"); });
  EXPECT_EQ(without.load().parameters() + 70, Checkpoint().load().parameters());
}

}  // namespace
}  // namespace bertie
