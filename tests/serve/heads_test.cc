// Heads that a request switches off, rollout and gradients, over HTTP as in the library.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "bertie/explain.h"
#include "bertie/json.h"
#include "serve/client.h"
#include "serve/small_models.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::golden_task;
using test::Reply;

const std::vector<WhichHead> kOff{{0, 1}, {1, 0}};
const json kWithout = {{1, 2}, {2, 1}};

class HeadRoutes : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new Server(test::small_models()); }
  static void TearDownTestSuite() { delete server_; }
  json ask(std::string_view path, const json& body, int status = 200) {
    const Reply reply = test::post(server_->port(), path, body.dump());
    EXPECT_EQ(reply.status, status) << path << " " << body.dump() << "\n" << reply.body;
    return reply.json();
  }
  TextModel model(const std::string& name) const { return load(golden_task(name)); }
  static Server* server_;
};
Server* HeadRoutes::server_ = nullptr;

std::vector<float> flat(const json& list) {
  std::vector<float> out;
  if (!list.is_array()) return {list.get<float>()};
  for (const json& item : list)
    for (const float x : flat(item)) out.push_back(x);
  return out;
}

TEST_F(HeadRoutes, SwitchedOffGiveWhatTheLibraryGivesWithoutThem) {
  const std::string text = "You found me";
  const TextModel bert = model("fill-mask-bert");
  const json reply = ask("/attention", {{"text", text}, {"model", "fill-mask-bert"}, {"without", kWithout}});
  EXPECT_EQ(flat(reply["weights"]), bert.without(kOff).attend(text).weights);
  EXPECT_NE(flat(reply["weights"]), bert.attend(text).weights);

  const auto pipeline = [&](const std::string& task, const json& inputs, const json& parameters) {
    return ask("/pipeline/" + task, {{"inputs", inputs}, {"parameters", parameters}});
  };
  const json on = pipeline("fill-mask", "You [MASK] me", {{"top_k", 1}});
  const json off = pipeline("fill-mask", "You [MASK] me", {{"top_k", 1}, {"without", kWithout}});
  EXPECT_EQ(off[0]["score"].get<float>(), bert.without(kOff).fill_mask("You [MASK] me").masks[0][0].score);
  EXPECT_NE(off[0]["score"], on[0]["score"]);

  const TextModel classifier = model("text-classification-bert"), tagger = model("token-classification-bert"),
                  answerer = model("question-answering-bert");
  EXPECT_EQ(pipeline("text-classification", text, {{"without", kWithout}})[0][0]["score"].get<float>(),
            classifier.without(kOff).classify(text).labels[0].score);
  const auto entities = tagger.without(kOff).tag(text, {.keep_outside = true}).entities;
  const json tagged =
      pipeline("token-classification", text, {{"without", kWithout}, {"ignore_labels", json::array()}});
  ASSERT_EQ(tagged.size(), entities.size());
  for (size_t i = 0; i < entities.size(); ++i) EXPECT_EQ(tagged[i]["score"].get<float>(), entities[i].score);
  const json answer =
      pipeline("question-answering", {{"question", "Who?"}, {"context", text}}, {{"without", kWithout}});
  EXPECT_EQ(answer["score"].get<float>(), answerer.without(kOff).answer("Who?", text).answers[0].score);
}

// Requests with other heads off do not share a pass.
TEST_F(HeadRoutes, OfOneRequestAreNotThoseOfAnother) {
  const TextModel bert = model("fill-mask-bert");
  std::vector<std::thread> threads;
  std::atomic<size_t> wrong = 0;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<WhichHead> off = t < 2 ? std::vector<WhichHead>{{t, t}} : std::vector<WhichHead>();
      json without = json::array();
      for (const WhichHead& which : off) without.push_back({which.layer + 1, which.head + 1});
      const std::string text = "You [MASK] me";
      const float score = bert.without(off).fill_mask(text).masks[0][0].score;
      for (size_t i = 0; i < 20; ++i) {
        const Reply reply = test::post(server_->port(), "/pipeline/fill-mask",
                                       json{{"inputs", text}, {"parameters", {{"without", without}}}}.dump());
        wrong += reply.status != 200 || reply.json()[0]["score"].get<float>() != score;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(HeadRoutes, ThatAreNotThereAreRefused) {
  for (const json& bad :
       {json({{0, 1}}), json({{1, 0}}), json({{3, 1}}), json({{1, 3}}), json({{1}}), json({{1, 1, 1}}),
        json({1, 1}), json("1-1"), json({{1, -1}}), json({{1, 1.5}}), json({{"1", 1}})}) {
    const json body{{"text", "a"}, {"model", "fill-mask-bert"}, {"without", bad}};
    EXPECT_EQ(ask("/attention", body, 422)["field"], "without") << bad.dump();
    ask("/pipeline/fill-mask", {{"inputs", "a [MASK]"}, {"parameters", {{"without", bad}}}}, 422);
  }
  json many = json::array();
  for (size_t i = 0; i < 1000; ++i) many.push_back({1, 1});
  ask("/attention", {{"text", "a"}, {"model", "fill-mask-bert"}, {"without", many}}, 413);
  EXPECT_EQ(ask("/attention", {{"text", "a"}, {"without", json::array()}})["tokens"].size(), 3u);
}

TEST_F(HeadRoutes, RolloutIsTheLibrarys) {
  const TextModel bert = model("fill-mask-bert");
  const json whole = ask("/rollout", {{"text", "You found me"}, {"model", "fill-mask-bert"}});
  EXPECT_EQ(flat(whole["weights"]), rollout(bert.attend("You found me")).values);
  EXPECT_EQ(whole["layer"], 2);
  const json first = ask("/rollout", {{"text", "You found me"},
                                      {"pair", "I found you"},
                                      {"model", "fill-mask-bert"},
                                      {"layer", 1},
                                      {"without", kWithout}});
  EXPECT_EQ(flat(first["weights"]),
            rollout(bert.without(kOff).attend("You found me", "I found you"), 1).values);
  EXPECT_EQ(ask("/rollout", {{"text", "a"}, {"layer", 9}}, 422)["field"], "layer");
  EXPECT_EQ(ask("/rollout", {{"text", "a"}, {"head", 1}}, 422)["field"], "head");
}

TEST_F(HeadRoutes, GradientsAreTheLibrarysAndSigned) {
  const TextModel bert = model("fill-mask-bert");
  const std::string text = "You [MASK] me, and I [MASK] you";
  const json body{{"text", text}, {"target", {{"task", "fill-mask"}, {"mask", 2}, {"token", "the"}}}};
  const json whole = ask("/gradient", body);
  const AttentionGradient expected = attention_gradient(bert, text, {.name = "the", .mask = 1});
  EXPECT_EQ(flat(whole["weights"]), expected.attention.weights);
  EXPECT_EQ(whole["prediction"], "the");
  EXPECT_EQ(whole["logit"].get<double>(), expected.logit);
  EXPECT_LT(*std::ranges::min_element(expected.attention.weights), 0);
  json some = body;
  some["layers"] = {2}, some["heads"] = {1}, some["without"] = kWithout;
  EXPECT_EQ(flat(ask("/gradient", some)["weights"][0][0]), [&] {
    const auto one =
        attention_gradient(bert.without(kOff), text, {.name = "the", .mask = 1}, {.layers = {1}});
    const Matrix<const float> w = one.attention.at(1, 0);
    return std::vector<float>(w.data(), w.data() + w.rows() * w.cols());
  }());
  json array = body;
  array["format"] = "npy";
  const Reply npy = test::post(server_->port(), "/gradient", array.dump());
  const size_t bytes = 4 * expected.attention.weights.size();
  ASSERT_GT(npy.body.size(), bytes);
  EXPECT_EQ(std::memcmp(npy.body.data() + npy.body.size() - bytes, expected.attention.weights.data(), bytes),
            0);

  const TextModel classifier = model("text-classification-bert");
  const std::string label = classifier.model().config().labels[1];
  EXPECT_EQ(
      flat(ask("/gradient", {{"text", "A film"},
                             {"model", "text-classification-bert"},
                             {"target", {{"task", "classify"}, {"label", label}}}})["weights"]),
      attention_gradient(classifier, "A film", {.head = Head::kClassify, .name = label}).attention.weights);

  const auto refused = [&](const json& target, const std::string& field) {
    EXPECT_EQ(ask("/gradient", {{"text", text}, {"target", target}}, 422)["field"], field) << target.dump();
  };
  refused({{"mask", 3}}, "target.mask");
  refused({{"task", "dream"}}, "target.task");
  refused({{"task", "classify"}, {"label", "nonsense"}}, "target.label");
  refused({{"task", "classify"}, {"mask", 1}}, "target.mask");
  refused({{"token", "\U0001F600"}}, "target.token");
  EXPECT_EQ(ask("/gradient", {{"text", "no gap"}, {"target", json::object()}}, 422)["field"], "text");
  EXPECT_EQ(ask("/gradient", {{"text", text}}, 422)["field"], "target");
}

}  // namespace
}  // namespace bertie
