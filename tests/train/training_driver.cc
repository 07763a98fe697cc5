// What tools/check_checkpoint.py and tools/track_pytorch.py want to know of Bertie's training:
//
//   training_driver save FAMILIES TO       a learner of each golden model with a head, loaded and saved again
//   training_driver losses MODEL BATCHES   the mean loss of each line, without dropout, as a line of JSON
//
// A line of batches is a JSON object: ids, types, offsets (target_ids, target_offsets), and terms: a list of
// objects with head (a name of model/family.h), rows, targets, values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "io/json.h"
#include "model/family.h"
#include "model/learner.h"
#include "train/data/pretraining_source.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr LearnerOptions kOptions{.threads = 2};

std::unique_ptr<Learner> learner_for(const fs::path& model, const std::vector<Head>& heads, uint64_t seed) {
  return TransformerConfig::describes(model) ? make_learner(TransformerConfig::load(model), seed, kOptions)
                                             : make_learner(Config::load(model), heads, seed, kOptions);
}

std::unique_ptr<Learner> load(const fs::path& model, const std::vector<Head>& heads) {
  auto learner = learner_for(model, heads, 1);
  for (const std::string& name : learner->load(model))
    throw Error(fmt::format("{} has no {}", model.string(), name),
                "the heads asked for are not the checkpoint's");
  return learner;
}

// By config.json's architecture; none for a model without a head.
std::vector<Head> heads_of(const fs::path& model) {
  const std::string architecture = Config::load(model).architecture;
  if (architecture.ends_with("ForPreTraining")) return {Head::kMaskedLm, Head::kNextSentence};
  for (size_t i = 0; i < std::size(kHeadNames); ++i)
    if (architecture.ends_with(kHeadNames[i].suffix)) return {Head(i)};
  return {};
}

void save(const fs::path& families, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(families)) {
    const bool pairs = TransformerConfig::describes(entry.path());
    const std::vector<Head> heads = pairs ? std::vector<Head>() : heads_of(entry.path());
    if (pairs || !heads.empty()) load(entry.path(), heads)->save(to / entry.path().filename());
  }
}

template <class T>
std::vector<T> list(const json& line, const char* key) {
  return line.value(key, std::vector<T>());
}

struct ReadTerm {
  Head head;
  std::vector<int32_t> rows, targets;
  std::vector<float> values;
  explicit ReadTerm(const json& g)
      : rows(list<int32_t>(g, "rows")),
        targets(list<int32_t>(g, "targets")),
        values(list<float>(g, "values")) {
    const std::string name = g.at("head");
    const auto* found = std::find_if(std::begin(kHeadNames), std::end(kHeadNames),
                                     [&](const HeadName& h) { return h.name == name; });
    if (found == std::end(kHeadNames)) throw Error(fmt::format("no head is called {}", io::quote(name)));
    head = Head(found - std::begin(kHeadNames));
  }
};

void losses(const fs::path& model, const fs::path& batches) {
  std::unique_ptr<Learner> learner;
  std::ifstream in(batches);
  for (std::string text; std::getline(in, text);) {
    const json line = io::parse_json(text, batches.string());
    const auto ids = list<int32_t>(line, "ids"), types = list<int32_t>(line, "types"),
               offsets = list<int32_t>(line, "offsets"), target_ids = list<int32_t>(line, "target_ids"),
               target_offsets = list<int32_t>(line, "target_offsets");
    const std::vector<ReadTerm> read(line.at("terms").begin(), line.at("terms").end());
    std::vector<LossTerm> terms;
    std::vector<Head> heads;
    for (const ReadTerm& g : read) {
      terms.push_back({.head = g.head, .rows = g.rows, .targets = g.targets, .values = g.values});
      heads.push_back(g.head);
    }
    if (!learner) learner = load(model, heads);
    std::vector<LossSum> sums(terms.size());
    learner->evaluate({.batch = {.ids = ids, .types = types, .offsets = offsets},
                       .target = {.ids = target_ids, .offsets = target_offsets},
                       .terms = terms},
                      sums);
    double loss = 0;
    for (const LossSum& s : sums) loss += s.loss / double(s.count);
    std::printf("%s\n", json{{"loss", loss}}.dump().c_str());
  }
  if (!learner) throw Error(fmt::format("no batches in {}", batches.string()));
}

void batches(const fs::path& shards, std::string_view objective, size_t length, uint64_t seed, size_t batch,
             size_t steps) {
  const Tokenizer tokenizer = Tokenizer::load(shards);
  const PretrainingOptions options{.objective = objective_of(objective), .max_length = length, .seed = seed};
  const auto source = make_pretraining_source(shards, tokenizer, options);
  BatchStorage store(source->terms());
  for (size_t step = 0; step < steps; ++step) {
    source->begin_step(batch);
    source->make(0, batch, store);
    json terms;
    for (const BatchStorage::Term& t : store.terms)
      terms.push_back({{"head", name_of(t.spec.head).name}, {"rows", t.rows}, {"targets", t.targets}});
    const json line = {
        {"ids", store.ids}, {"types", store.types}, {"offsets", store.offsets}, {"terms", terms}};
    std::printf("%s\n", line.dump().c_str());
  }
}

size_t number(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(fmt::format("{} is not a number", io::quote(text)));
  return value;
}

}  // namespace
}  // namespace bertie

int main(int argc, char** argv) try {
  const std::string what = argc == 1 ? "" : argv[1];
  if (what == "save" && argc == 4)
    bertie::save(argv[2], argv[3]);
  else if (what == "losses" && argc == 4)
    bertie::losses(argv[2], argv[3]);
  else if (what == "batches" && argc == 8)
    bertie::batches(argv[2], argv[3], bertie::number(argv[4]), bertie::number(argv[5]),
                    bertie::number(argv[6]), bertie::number(argv[7]));
  else
    return std::fprintf(stderr, "usage: see the top of tests/train/training_driver.cc\n"), 2;
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
