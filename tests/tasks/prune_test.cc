// Models without some of their heads: what they compute, and what is in their folders.
#include "bertie/prune.h"

#include <fstream>

#include "bertie/error.h"
#include "bertie/json.h"
#include "io/safetensors.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

TEST(Prune, WritesAModelThatDoesWhatTheOneWithoutTheHeadsDoes) {
  for (const char* name : {"fill-mask-bert", "text-classification-roberta", "token-classification-distilbert",
                           "question-answering-bert", "text-generation-gpt2", "sentence-similarity-bert"}) {
    SCOPED_TRACE(name);
    const test::TempFolder folder;
    const std::vector<WhichHead> heads{{0, 1}};
    const Pruned pruned =
        prune({.from = test::golden_task(name), .to = folder.path() / "less", .heads = heads});
    EXPECT_EQ(pruned.heads, 1u);
    EXPECT_LT(pruned.parameters, pruned.parameters_before);
    const TextModel less = load(folder.path() / "less", {.threads = 1, .strict = true});
    const TextModel off = load(test::golden_task(name), {.threads = 1}).without(heads);
    const std::string text = "Anna came to the old harbour.";
    EXPECT_EQ(less.token_vectors(std::vector{text})[0].values,
              off.token_vectors(std::vector{text})[0].values);
    const Attention a = less.attend(text);
    EXPECT_EQ(a.at(0, 0)(1, 0), off.attend(text).at(0, 0)(1, 0));
    EXPECT_EQ(a.at(0, 1)(1, 0), 0);  // it looks at nothing
    if (less.can(Head::kClassify)) {
      EXPECT_EQ(to_json(less.classify(text)), to_json(off.classify(text)));
    }
    if (less.can(Head::kTag)) {
      EXPECT_EQ(to_json(less.tag(text)), to_json(off.tag(text)));
    }
    if (less.can(Head::kAnswer)) {
      EXPECT_EQ(to_json(less.answer("Who?", text)), to_json(off.answer("Who?", text)));
    }
    if (less.can(Head::kCausalLm)) {
      EXPECT_EQ(less.generate(text, {.max_new_tokens = 8}).ids,
                off.generate(text, {.max_new_tokens = 8}).ids);
    }
  }
}

TEST(Prune, KeepsWhatElseConfigJsonSaysAndHowNumbersAreStored) {
  const test::TempFolder folder;
  const auto from = test::golden_task("fill-mask-bert");
  prune({.from = from, .to = folder.path() / "less", .heads = {{0, 1}, {1, 0}}});
  const auto read = [](const std::filesystem::path& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
  };
  nlohmann::json before = read(from / "config.json"), after = read(folder.path() / "less/config.json");
  EXPECT_EQ(after["pruned_heads"].dump(), R"({"0":[1],"1":[0]})");
  after.erase("pruned_heads");
  EXPECT_EQ(after, before);
  const io::SafeTensors tensors = io::SafeTensors::open(folder.path() / "less");
  EXPECT_EQ(tensors.find("bert.encoder.layer.0.attention.self.query.weight")->dtype, io::DType::kF16);
  EXPECT_LT(std::filesystem::file_size(folder.path() / "less/model.safetensors"),
            std::filesystem::file_size(from / "model.safetensors"));
}

TEST(Prune, RefusesWhatWouldLeaveNoModelAndChangesNothing) {
  const test::TempFolder folder;
  const auto from = test::golden_task("fill-mask-bert");
  const auto to = folder.path() / "less";
  test::expect_error("no head left", [&] { prune({.from = from, .to = to, .heads = {{0, 0}, {0, 1}}}); });
  test::expect_error("there is no layer", [&] { prune({.from = from, .to = to, .heads = {{9, 0}}}); });
  test::expect_error("share", [&] {
    prune({.from = test::golden_task("fill-mask-albert"), .to = to, .heads = {{0, 0}}});
  });
  EXPECT_FALSE(std::filesystem::exists(to));
  prune({.from = from, .to = to, .heads = {{0, 0}}});
  test::expect_error("is there already", [&] { prune({.from = from, .to = to, .heads = {{0, 1}}}); });
  EXPECT_NO_THROW(prune({.from = from, .to = to, .heads = {{0, 1}}, .force = true}));
  EXPECT_EQ(Config::load(to).heads_of(0), (std::vector<size_t>{0}));
}

TEST(Prune, TakesTheShareThatMattersLeastButOneHeadOfEachLayer) {
  const Config config{.layers = 2, .hidden = 12, .heads = 3};
  const std::vector<double> importance{0.1, 0.2, 0.3, 0.9, 0.8, 0.7};
  EXPECT_EQ(least_important(importance, config, 0.5), (std::vector<WhichHead>{{0, 0}, {0, 1}, {1, 2}}));
  EXPECT_EQ(least_important(importance, config, 0.17), (std::vector<WhichHead>{{0, 0}}));
  EXPECT_EQ(least_important(importance, config, 0.99).size(), 4u);
  Config less = config;
  less.pruned_heads = {{0}, {}};
  EXPECT_EQ(least_important(importance, less, 0.2), (std::vector<WhichHead>{{0, 1}}));
  for (const double bad : {0.0, 1.0, -1.0, double(NAN)})
    EXPECT_THROW(least_important(importance, config, bad), Error);
}

}  // namespace
}  // namespace bertie
