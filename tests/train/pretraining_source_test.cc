// Batches from shards: what a sequence holds, how often, and that neither batches, ranks nor a restart
// matter.
#include "train/data/pretraining_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "made_up_shards.h"
#include "support/expect_error.h"
#include "train/data/pretraining_plan.h"

namespace bertie {
namespace {

using test::expect_error;
using test::is_uniform;
using test::MadeUpShards;
using test::within_three_sigma;

constexpr int32_t kCls = 2, kSep = 3;

struct MadeSequence {
  std::vector<int32_t> ids, types;  // ids as they were before masking
  std::vector<int32_t> rows;        // in the sequence
  std::vector<int32_t> seen;        // ids as the model gets them
  int32_t label = -1;
  friend bool operator==(const MadeSequence&, const MadeSequence&) = default;
};

std::vector<MadeSequence> sequences_of(const BatchStorage& store) {
  std::vector<MadeSequence> all(store.sequences());
  const BatchStorage::Term& masked = store.terms[0];
  size_t row = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const int32_t begin = store.offsets[i], end = store.offsets[i + 1];
    all[i].seen = all[i].ids = {store.ids.begin() + begin, store.ids.begin() + end};
    all[i].types = {store.types.begin() + begin, store.types.begin() + end};
    if (store.terms.size() > 1) all[i].label = store.terms[1].targets[i];
    for (; row < masked.rows.size() && masked.rows[row] < end; ++row) {
      all[i].rows.push_back(masked.rows[row] - begin);
      all[i].ids[size_t(masked.rows[row] - begin)] = masked.targets[row];
    }
  }
  EXPECT_EQ(row, masked.rows.size());
  return all;
}

std::vector<MadeSequence> take(BatchSource& source, size_t count, size_t batch = 16) {
  std::vector<MadeSequence> all;
  BatchStorage store(source.terms());
  source.begin_step(count);
  for (size_t first = 0; first < count; first += batch) {
    source.make(first, std::min(batch, count - first), store);
    for (MadeSequence& s : sequences_of(store)) all.push_back(std::move(s));
  }
  return all;
}

// The stretches of following ids, without the special tokens.
std::vector<std::pair<int32_t, int32_t>> stretches(const MadeSequence& s) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (size_t i = 0; i < s.ids.size(); ++i) {
    if (s.ids[i] < MadeUpShards::kFirstId) continue;
    if (i > 0 && s.ids[i] == s.ids[i - 1] + 1 && s.ids[i - 1] >= MadeUpShards::kFirstId)
      out.back().second = s.ids[i];
    else
      out.push_back({s.ids[i], s.ids[i]});
  }
  return out;
}

const MadeUpShards& shards() {
  static const MadeUpShards made;
  return made;
}

TEST(PretrainingSource, NextSentencePairsAreNextOrOfAnotherDocument) {
  auto source =
      make_pretraining_source(shards().folder(), shards().tokenizer(), {.max_length = 64, .seed = 5});
  size_t random = 0, cut = 0;
  const auto all = take(*source, 3000);
  for (const MadeSequence& s : all) {
    ASSERT_LE(s.ids.size(), 64u);
    ASSERT_EQ(s.ids.front(), kCls);
    ASSERT_EQ(s.ids.back(), kSep);
    const auto middle = std::find(s.ids.begin(), s.ids.end(), kSep);
    const size_t a_end = size_t(middle - s.ids.begin());
    for (size_t i = 0; i < s.ids.size(); ++i) ASSERT_EQ(s.types[i], i <= a_end ? 0 : 1);
    const std::vector<int32_t> a(s.ids.begin() + 1, middle), b(middle + 1, s.ids.end() - 1);
    ASSERT_FALSE(a.empty());
    ASSERT_FALSE(b.empty());
    for (const auto& part : {a, b})
      for (size_t i = 1; i < part.size(); ++i) ASSERT_EQ(part[i], part[i - 1] + 1);
    if (s.label == 1) {
      ++random;
      ASSERT_NE(shards().document(a[0]), shards().document(b[0]));
    } else {
      ASSERT_EQ(s.label, 0);
      ASSERT_EQ(shards().document(a[0]), shards().document(b[0]));
      ASSERT_GT(b[0], a.back());
      if (b[0] != a.back() + 1) ++cut;  // by truncation alone
      ASSERT_TRUE(b[0] == a.back() + 1 || s.ids.size() == 64);
    }
    ASSERT_EQ(s.rows.size(), size_t(std::max(1.0, std::nearbyint(0.15 * double(s.ids.size())))));
  }
  EXPECT_TRUE(within_three_sigma(double(random), double(all.size()), 0.5)) << random;
  EXPECT_GT(cut, 0u);
}

// On the plan, where nothing is cut off yet.
std::vector<PlannedSequence> plan(const MadeUpShards& made, Objective objective, size_t room, uint64_t epoch,
                                  double short_rate = 0.1, size_t random_within = 0) {
  std::vector<Shard> files;
  std::vector<uint32_t> group;
  for (size_t i = 0; std::filesystem::exists(made.folder() / shard_name(Part::kTrain, i)); ++i) {
    files.emplace_back(made.folder() / shard_name(Part::kTrain, i));
    group.push_back(uint32_t(i));
  }
  Planner planner(files, {objective, room, short_rate, random_within}, 3);
  std::vector<PlannedSequence> out;
  planner.plan(group, epoch, out);
  return out;
}

std::vector<int32_t> ids_of(const MadeUpShards& made, const Stretch& stretch) {
  const Shard shard(made.folder() / shard_name(Part::kTrain, stretch.shard));
  std::vector<int32_t> ids(stretch.count);
  shard.read(stretch.begin, stretch.count, ids.data());
  return ids;
}

TEST(PretrainingPlan, WhatARandomPairDidNotUseGoesBack) {
  // Every token of a document with two sentences or more is in one A, or in one B that is next; but a
  // sentence alone at the end may take the one before it along.
  std::map<int32_t, size_t> used;
  size_t alone = 0;
  for (const PlannedSequence& s : plan(shards(), Objective::kMaskedNext, 61, 0)) {
    const auto a = ids_of(shards(), s.a), b = ids_of(shards(), s.b);
    for (int32_t id : a) ++used[id];
    if (s.label == 1) continue;
    ASSERT_EQ(b.front(), a.back() + 1);
    for (int32_t id : b) ++used[id];
  }
  std::map<size_t, std::set<size_t>> sentences;
  for (int32_t id = MadeUpShards::kFirstId; id < MadeUpShards::kFirstId + int32_t(shards().tokens()); ++id)
    sentences[shards().document(id)].insert(shards().sentence(id));
  for (int32_t id = MadeUpShards::kFirstId; id < MadeUpShards::kFirstId + int32_t(shards().tokens()); ++id) {
    const auto& its = sentences[shards().document(id)];
    if (its.size() == 1) {
      ASSERT_EQ(used[id], 0u);
    } else if (shards().sentence(id) + 1 == *its.rbegin()) {
      ASSERT_TRUE(used[id] == 1 || used[id] == 2);
      alone += used[id] == 2;
    } else {
      ASSERT_EQ(used[id], 1u) << id;
    }
  }
  EXPECT_GT(alone, 0u);
}

TEST(PretrainingPlan, HalfOfAMillionPairsAreRandomAndFromAnyOtherDocument) {
  const MadeUpShards made({.documents = 50, .max_sentences = 40, .max_tokens = 3, .shards = 2});
  size_t pairs = 0, random = 0;
  std::vector<size_t> from(made.documents());
  std::vector<Shard> files;
  for (size_t i = 0; i < 2; ++i) files.emplace_back(made.folder() / shard_name(Part::kTrain, i));
  Planner planner(files, {Objective::kMaskedNext, 6, 0.1}, 3);
  std::vector<PlannedSequence> out;
  const uint32_t group[] = {0, 1};
  const auto document_of = [&](const Stretch& s) {
    int32_t id;
    files[s.shard].read(s.begin, 1, &id);
    return made.document(id);
  };
  for (uint64_t epoch = 0; pairs < 1'000'000; ++epoch) {
    planner.plan(group, epoch, out);
    for (const PlannedSequence& s : out) {
      ++pairs;
      if (s.label == 0) continue;
      ++random;
      const size_t a = document_of(s.a), b = document_of(s.b);
      ASSERT_NE(a, b);
      if (a == 0) ++from[b];
    }
  }
  EXPECT_TRUE(within_three_sigma(double(random), double(pairs), 0.5)) << double(random) / double(pairs);
  EXPECT_TRUE(is_uniform({from.begin() + 1, from.end()}));  // of the first document's pairs
}

TEST(PretrainingPlan, RandomPairsAreFromDocumentsWithinReach) {
  const auto document_of = [&](const Stretch& s) { return shards().document(ids_of(shards(), s).front()); };
  for (const size_t within : {size_t{1}, size_t{3}, size_t{1000}, SIZE_MAX}) {
    std::map<size_t, size_t> distances;
    for (uint64_t epoch = 0; epoch < 5; ++epoch)
      for (const PlannedSequence& s : plan(shards(), Objective::kMaskedNext, 61, epoch, 0.1, within)) {
        const size_t a = document_of(s.a), b = document_of(s.b);
        if (s.label == 1) ++distances[a > b ? a - b : b - a];
      }
    EXPECT_FALSE(distances.contains(0));
    EXPECT_LE(distances.rbegin()->first, within);
    EXPECT_GE(distances.size(), std::min<size_t>(within, 100)) << "all of them come";
  }
  const auto any = plan(shards(), Objective::kMaskedNext, 61, 0),
             far = plan(shards(), Objective::kMaskedNext, 61, 0, 0.1, 100'000);
  EXPECT_EQ(any, far);
}

TEST(PretrainingPlan, OneTargetInTenIsShorterAndOfAnyLength) {
  // Sentences of one token: a sequence is as long as its target, but for a document's last.
  const MadeUpShards made({.documents = 1, .max_sentences = 200'000, .max_tokens = 1, .shards = 1});
  constexpr size_t kRoom = 20;
  std::vector<Shard> files;
  files.emplace_back(made.folder() / shard_name(Part::kTrain, 0));
  Planner planner(files, {Objective::kMasked, kRoom, 0.1}, 3);
  std::vector<PlannedSequence> out;
  const uint32_t group[] = {0};
  size_t all = 0, shorter = 0;
  std::vector<size_t> lengths(kRoom + 1);
  for (uint64_t epoch = 0; all < 1'000'000; ++epoch) {
    planner.plan(group, epoch, out);
    out.pop_back();
    for (const PlannedSequence& s : out) ++all, shorter += s.a.count < kRoom, ++lengths[s.a.count];
  }
  // One time in ten a target of 2..20 is drawn; 20 is the full length.
  EXPECT_TRUE(within_three_sigma(double(shorter), double(all), 0.1 * 18 / 19))
      << double(shorter) / double(all);
  EXPECT_EQ(lengths[1], 0u);
  EXPECT_TRUE(is_uniform({lengths.begin() + 2, lengths.end() - 1}));
}

TEST(PretrainingPlan, SentenceOrderSwapsHalf) {
  size_t swapped = 0, all = 0;
  for (uint64_t epoch = 0; epoch < 20; ++epoch)
    for (const PlannedSequence& s : plan(shards(), Objective::kMaskedOrder, 61, epoch)) {
      const auto a = ids_of(shards(), s.a), b = ids_of(shards(), s.b);
      ++all, swapped += s.label == 1;
      ASSERT_EQ(s.label == 1 ? b.back() + 1 : a.back() + 1, s.label == 1 ? a.front() : b.front());
      ASSERT_EQ(shards().document(a[0]), shards().document(b[0]));
    }
  EXPECT_TRUE(within_three_sigma(double(swapped), double(all), 0.5)) << swapped << " of " << all;
}

TEST(PretrainingPlan, MaskedAloneTakesWholeSentencesOfADocumentAndAllOfThem) {
  int32_t next = MadeUpShards::kFirstId;
  size_t cut = 0;
  for (const PlannedSequence& s : plan(shards(), Objective::kMasked, 40, 0)) {
    ASSERT_LE(s.a.count, 40u);
    const auto ids = ids_of(shards(), s.a);
    for (int32_t id : ids) ASSERT_EQ(id, next++);
    ASSERT_EQ(shards().document(ids.front()), shards().document(ids.back()));
    const bool last = next == MadeUpShards::kFirstId + int32_t(shards().tokens());
    cut += !last && shards().sentence(ids.back()) == shards().sentence(next);
  }
  EXPECT_EQ(next, MadeUpShards::kFirstId + int32_t(shards().tokens()));
  EXPECT_GT(cut, 0u);  // short targets cut a sentence now and then
  for (const PlannedSequence& s : plan(shards(), Objective::kMasked, 40, 0, 0)) {
    const auto ids = ids_of(shards(), s.a);
    const int32_t after = ids.back() + 1;
    const bool last = after == MadeUpShards::kFirstId + int32_t(shards().tokens());
    ASSERT_TRUE(last || shards().sentence(ids.back()) != shards().sentence(after));
  }
}

TEST(PretrainingSource, CausalIsTheTextWithAnEndAfterEachDocument) {
  const MadeUpShards made({.documents = 40, .shards = 2, .part = Part::kHeldOut});
  auto source = make_pretraining_source(
      made.folder(), made.tokenizer(), {.objective = Objective::kCausal, .max_length = 32, .held_out = true});
  BatchStorage store(source->terms());
  const size_t count = source->sequences();
  source->begin_step(count);
  source->make(0, count, store);
  ASSERT_EQ(store.terms.size(), 1u);
  EXPECT_TRUE(store.terms[0].rows.empty());
  ASSERT_EQ(store.terms[0].targets.size(), store.ids.size());
  std::vector<int32_t> expected, told;
  size_t shard_end = 0;
  for (int32_t id = MadeUpShards::kFirstId; id < MadeUpShards::kFirstId + int32_t(made.tokens()); ++id) {
    expected.push_back(id);
    const bool last = id + 1 == MadeUpShards::kFirstId + int32_t(made.tokens());
    if (last || made.document(id) != made.document(id + 1)) {
      expected.push_back(kSep);
      if (made.document(id) == 19) shard_end = expected.size();
    }
  }
  // The last token of a shard is told, and begins nothing.
  told.assign(expected.begin() + 1, expected.end());
  told.erase(told.begin() + ptrdiff_t(shard_end) - 1);
  expected.erase(expected.begin() + ptrdiff_t(shard_end) - 1);
  expected.pop_back();
  EXPECT_EQ(store.ids, expected);
  EXPECT_EQ(store.terms[0].targets, told);
  for (size_t i = 0; i < store.sequences(); ++i) ASSERT_LE(store.offsets[i + 1] - store.offsets[i], 32);
}

class EveryObjective : public testing::TestWithParam<Objective> {
 protected:
  PretrainingOptions options(uint64_t seed = 9) const {
    return {.objective = GetParam(), .max_length = 48, .seed = seed, .shuffled_tokens = 2000};
  }
  std::unique_ptr<PretrainingSource> open(const PretrainingOptions& o) const {
    return make_pretraining_source(shards().folder(), shards().tokenizer(), o);
  }
};
INSTANTIATE_TEST_SUITE_P(All, EveryObjective,
                         testing::Values(Objective::kMasked, Objective::kMaskedNext, Objective::kMaskedOrder,
                                         Objective::kCausal),
                         [](const auto& which) {
                           std::string name(name_of(which.param));
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

TEST_P(EveryObjective, StepsAndBatchesDoNotMatter) {
  // More than an epoch, so that groups and epochs end within steps.
  const size_t count = 2 * open(options())->sequences() + 100;
  const auto whole = take(*open(options()), count, count);
  auto source = open(options());
  std::vector<MadeSequence> pieces;
  for (size_t step = 1, left = count; left > 0; step = step * 3 % 61 + 1) {
    const size_t now = std::min(step, left);
    for (MadeSequence& s : take(*source, now, 7)) pieces.push_back(std::move(s));
    left -= now;
  }
  ASSERT_EQ(pieces.size(), whole.size());
  EXPECT_TRUE(pieces == whole);
  // In any order, and only those that are asked for.
  source = open(options());
  BatchStorage store(source->terms());
  source->begin_step(100);
  for (size_t i = 100; i-- > 0;) {
    source->make(i, 1, store);
    ASSERT_TRUE(sequences_of(store)[0] == whole[i]) << i;
  }
  EXPECT_FALSE(take(*open(options(10)), 100) == take(*open(options(9)), 100));
}

TEST_P(EveryObjective, ACursorGoesOnWhereItWas) {
  auto source = open(options());
  for (size_t step = 0; step < 30; ++step) {
    const std::string cursor = source->cursor();
    const double epochs = source->epochs();
    const auto next = take(*source, 77);
    auto other = open(options());
    take(*other, 5);
    other->seek(cursor);
    EXPECT_EQ(other->cursor(), cursor);
    EXPECT_EQ(other->epochs(), epochs);
    ASSERT_TRUE(take(*other, 77) == next) << cursor;
    EXPECT_EQ(other->cursor(), source->cursor());
    EXPECT_GT(source->epochs(), epochs);
  }
}

TEST_P(EveryObjective, AnEpochHasEverySequenceOnceAndTheNextOneAnew) {
  auto source = open(options());
  const auto first = take(*source, source->sequences());
  EXPECT_EQ(source->epochs(), 1.0);
  std::set<std::vector<std::pair<int32_t, int32_t>>> different;
  for (const MadeSequence& s : first) different.insert(stretches(s));
  EXPECT_EQ(different.size(), first.size());
  const auto second = take(*source, 50);
  size_t same = 0;
  for (const MadeSequence& s : second) same += std::find(first.begin(), first.end(), s) != first.end();
  if (GetParam() != Objective::kCausal) {
    EXPECT_LT(same, 10u);
  }
}

TEST(PretrainingSource, TheHeldOutPartIsTheSameEveryTime) {
  const MadeUpShards made({.documents = 30, .shards = 2, .part = Part::kHeldOut});
  EXPECT_TRUE(has_held_out(made.folder()));
  EXPECT_FALSE(has_held_out(shards().folder()));
  auto source =
      make_pretraining_source(made.folder(), made.tokenizer(), {.max_length = 64, .held_out = true});
  const size_t count = source->sequences();
  const std::string start = source->cursor();
  const auto first = take(*source, count);
  EXPECT_TRUE(take(*source, count) == first);  // the next epoch
  take(*source, 3);
  source->seek(start);
  EXPECT_TRUE(take(*source, count) == first);
  int32_t last = 0;  // in the text's order
  for (const MadeSequence& s : first) {
    ASSERT_GE(int32_t(made.document(s.ids[1])), last);
    last = int32_t(made.document(s.ids[1]));
  }
}

TEST(PretrainingSource, TheMaskRateGoesToItsEndOverTheRun) {
  auto source = make_pretraining_source(shards().folder(), shards().tokenizer(),
                                        {.max_length = 64, .mask_rate = 0.3, .mask_rate_end = 0.1});
  for (const auto& [progress, rate] : {std::pair(0.0, 0.3), {0.5, 0.2}, {1.0, 0.1}}) {
    source->set_progress(progress);
    for (const MadeSequence& s : take(*source, 20))
      EXPECT_EQ(s.rows.size(), std::max<size_t>(1, size_t(std::nearbyint(rate * double(s.ids.size())))));
  }
  auto other = make_pretraining_source(shards().folder(), shards().tokenizer(),
                                       {.max_length = 64, .mask_rate = 0.3, .mask_rate_end = 0.2});
  expect_error("other settings", [&] { other->seek(source->cursor()); });
  expect_error("`mask_rate_end` 0 is not a share", [&] {
    make_pretraining_source(shards().folder(), shards().tokenizer(), {.mask_rate_end = 0.0});
  });
}

TEST(PretrainingSource, SaysWhatIsWrong) {
  const PretrainingOptions options{.max_length = 32};
  const Tokenizer& tokenizer = shards().tokenizer();
  const test::TempFolder empty;
  expect_error("has no training shards", [&] { make_pretraining_source(empty.path(), tokenizer, options); });
  expect_error("has no held-out shards",
               [&] { make_pretraining_source(shards().folder(), tokenizer, {.held_out = true}); });
  const Tokenizer other = Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  expect_error("another tokenizer", [&] { make_pretraining_source(shards().folder(), other, options); });
  expect_error("sequences of 4 tokens",
               [&] { make_pretraining_source(shards().folder(), tokenizer, {.max_length = 4}); });
  auto source = make_pretraining_source(shards().folder(), tokenizer, options);
  auto longer = make_pretraining_source(shards().folder(), tokenizer, {.max_length = 33});
  for (const std::string& cursor :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"pretraining\": \"x\"}")})
    EXPECT_THROW(source->seek(cursor), Error) << cursor;
  expect_error("other settings", [&] { source->seek(longer->cursor()); });
  std::string beyond = source->cursor();
  beyond.replace(beyond.find("\"group\": 0"), 10, "\"group\": 9");
  expect_error("beyond its end", [&] { source->seek(beyond); });
  beyond = source->cursor();
  beyond.replace(beyond.find("\"sequence\": 0"), 13, "\"sequence\": 999999");
  expect_error("beyond its end", [&] { source->seek(beyond); });
  const MadeUpShards single({.documents = 1, .shards = 1});
  expect_error("more than one document",
               [&] { make_pretraining_source(single.folder(), single.tokenizer(), options); });
  expect_error("no objective \"gpt\"", [] { objective_of("gpt"); });
  EXPECT_EQ(objective_of("mlm+sop"), Objective::kMaskedOrder);
}

TEST(PretrainingSource, WhatIsMissingIsNamed) {
  const PretrainingOptions options{.max_length = 32};
  const auto open = [&](const MadeUpShards& made) {
    return make_pretraining_source(made.folder(), made.tokenizer(), options);
  };
  {
    const MadeUpShards made;
    std::filesystem::remove(made.folder() / "train-00001.tokens");
    expect_error("train-00001.tokens is missing: shards.json counts 3", [&] { open(made); });
  }
  {
    const MadeUpShards made;
    std::filesystem::copy(made.folder() / "train-00002.tokens", made.folder() / "train-00003.tokens");
    expect_error("train-00003.tokens is there, but", [&] { open(made); });
    std::filesystem::remove(made.folder() / "train-00003.tokens");
    EXPECT_NO_THROW(open(made));
    ShardManifest manifest = read_manifest(made.folder());
    const auto write = [&] { std::ofstream(made.folder() / ShardManifest::kName) << manifest.text(); };
    manifest.train.tokens += 1;
    write();
    expect_error("one is of another run", [&] { open(made); });
    manifest.complete = false;
    write();
    expect_error("is not finished", [&] { open(made); });
    std::filesystem::remove(made.folder() / ShardManifest::kName);
    expect_error("has no shards.json", [&] { open(made); });
    expect_error("has no shards.json", [&] { has_held_out(made.folder()); });
  }
}

TEST(PretrainingSource, ADamagedShardIsNamedWhenItIsFirstUsed) {
  const MadeUpShards made;
  const auto path = made.folder() / shard_name(Part::kTrain, 1);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-9, std::ios::end);
  file.put('\x7f');
  file.close();
  auto source = make_pretraining_source(made.folder(), made.tokenizer(), {.max_length = 64});
  expect_error("train-00001.tokens is damaged", [&] { source->begin_step(1); });
}

TEST(PretrainingSource, OneSentenceDocumentsMakeNoPairsAndThatIsSaid) {
  const MadeUpShards made({.documents = 20, .max_sentences = 1, .shards = 1});
  auto source = make_pretraining_source(made.folder(), made.tokenizer(), {.max_length = 64});
  expect_error("no text to learn from", [&] { source->begin_step(1); });
  auto alone = make_pretraining_source(made.folder(), made.tokenizer(),
                                       {.objective = Objective::kMasked, .max_length = 64});
  EXPECT_EQ(take(*alone, 20).size(), 20u);
  EXPECT_EQ(source->share_without_pairs(), 1);
  EXPECT_EQ(alone->share_without_pairs(), 0);
  // Of a mixture, the share of the tokens.
  std::vector<size_t> sentences(shards().documents());
  for (size_t i = 0, last = SIZE_MAX; i < shards().tokens(); ++i) {
    const int32_t id = MadeUpShards::kFirstId + int32_t(i);
    if (shards().sentence(id) != last) ++sentences[shards().document(id)];
    last = shards().sentence(id);
  }
  size_t single = 0;
  for (size_t i = 0; i < shards().tokens(); ++i)
    single += sentences[shards().document(MadeUpShards::kFirstId + int32_t(i))] == 1;
  ASSERT_GT(single, 0u);
  const auto mixed = make_pretraining_source(shards().folder(), shards().tokenizer(), {.max_length = 64});
  EXPECT_DOUBLE_EQ(mixed->share_without_pairs(), double(single) / double(shards().tokens()));
}

}  // namespace
}  // namespace bertie
