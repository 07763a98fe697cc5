// The page behind `bertie serve`, and what it asks for: pictures of all heads, means, mechanisms.
#include "explain/page.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>

#include "bertie/atlas.h"
#include "bertie/text_model.h"
#include "serve/attention_cache.h"
#include "serve/client.h"
#include "serve/small_models.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::Reply;

const std::string kText = "The bank deposited the money near the river bank.";
const std::string kModel = "sentence-similarity-bert";

class Page : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new Server(test::small_models()); }
  static void TearDownTestSuite() { delete server_; }
  Reply ask(std::string_view path, const json& body) {
    return test::post(server_->port(), path, body.dump());
  }
  Reply get(std::string_view path, std::string_view headers = {}) {
    return test::get(server_->port(), path, headers);
  }
  static Server* server_;
};
Server* Page::server_ = nullptr;

std::string gunzipped(const std::string& packed) {
  std::string out(1 << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = uInt(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data()), stream.avail_out = uInt(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST_F(Page, IsServedWithAStrictPolicyAndNoScriptOfItsOwn) {
  const Reply reply = get("/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/html; charset=utf-8");
  const std::string policy = reply.header("content-security-policy");
  EXPECT_NE(policy.find("default-src 'none'; script-src 'self'"), policy.npos) << policy;
  EXPECT_EQ(policy.find("unsafe"), policy.npos) << policy;
  EXPECT_EQ(reply.body.find("<script>"), reply.body.npos);
  EXPECT_NE(reply.body.find("src=\"web/app.js\""), reply.body.npos);
}

TEST_F(Page, FilesComeWithTheirTypesPackedAndOnce) {
  size_t bytes = 0;
  for (const PageFile& file : page_files()) {
    const std::string path = "/web/" + std::string(file.name);
    const Reply plain = get(path), packed = get(path, "Accept-Encoding: gzip, br\r\n");
    EXPECT_EQ(plain.body, file.text) << path;
    EXPECT_EQ(packed.header("content-encoding"), "gzip") << path;
    EXPECT_EQ(gunzipped(packed.body), file.text) << path;
    bytes += packed.body.size();
    const Reply again = get(path, "If-None-Match: " + plain.header("etag") + "\r\n");
    EXPECT_EQ(again.status, 304) << path;
    EXPECT_EQ(again.body, "") << path;
  }
  EXPECT_EQ(get("/web/app.js").header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/web/style.css").header("content-type"), "text/css; charset=utf-8");
  EXPECT_LE(bytes, 150'000u);
  EXPECT_GT(bytes, 10'000u);
  for (const char* path : {"/web/", "/web/none.js", "/web/../openapi.json", "/web/%2e%2e/app.js", "//"})
    EXPECT_EQ(get(path).status, 404) << path;
}

// Text becomes elements in one place, as text. These are the ways in which it could become more.
TEST_F(Page, NeverMakesMarkupOfTextAndNamesNoOtherServer) {
  for (const PageFile& file : page_files()) {
    if (!file.name.ends_with(".js")) continue;
    for (const char* way :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
          "createContextualFragment", "DOMParser", "setAttribute(\"style\"", "https://"})
      EXPECT_EQ(file.text.find(way), file.text.npos) << file.name << " has " << way;
    for (size_t at = 0; (at = file.text.find("http://", at)) != file.text.npos; ++at)
      EXPECT_TRUE(file.text.substr(at).starts_with("http://www.w3.org/2000/svg")) << file.name;
  }
}

TEST_F(Page, AtlasIsTheLibrarys) {
  const Attention attention = load(test::golden_task(kModel)).attend(kText);
  const Atlas expected = atlas(attention);
  const Reply reply = ask("/atlas", {{"text", kText}, {"model", kModel}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.body, to_json(expected, attention, {.model = kModel, .text = kText}));
  EXPECT_EQ(ask("/atlas", {{"text", kText}, {"model", kModel}}).body, reply.body) << "from what was kept";
  const json told = reply.json();
  EXPECT_EQ(told["tokens"], attention.tokens);
  EXPECT_EQ(told["summary"]["entropy"].size(), attention.layers * attention.heads);
}

TEST_F(Page, AttentionIsTheSameFromWhatWasKept) {
  const json body = {
      {"text", "What was kept is as good."}, {"layers", {2}}, {"heads", {1}}, {"format", "npy"}};
  const Reply before = ask("/attention", body);
  ASSERT_EQ(before.status, 200);
  ASSERT_EQ(ask("/atlas", {{"text", body["text"]}}).status, 200);
  EXPECT_EQ(ask("/attention", body).body, before.body);
}

TEST_F(Page, MeanIsOverALayersHeadsOrAll) {
  const Attention a = load(test::golden_task(kModel)).attend(kText);
  for (size_t layer : {size_t{0}, size_t{2}}) {
    json body = {{"text", kText}, {"model", kModel}};
    if (layer) body["layer"] = layer;
    const json reply = ask("/mean", body).json();
    const size_t last = a.n() - 1, count = layer ? a.heads : a.heads * a.layers;
    double sum = 0;
    for (size_t l = layer ? layer - 1 : 0; l < (layer ? layer : a.layers); ++l)
      for (size_t h = 0; h < a.heads; ++h) sum += a.at(l, h)(1, last);
    EXPECT_NEAR(reply["weights"][1][last].get<double>(), sum / double(count), 1e-6) << layer;
    body["format"] = "npy", body["precision"] = "float16";
    EXPECT_NE(ask("/mean", body).body.find("<f2"), std::string::npos);
  }
}

TEST_F(Page, MechanismsRunOnTheHeadsOwnNumbers) {
  const json reply = ask("/mechanisms", {{"text", kText}, {"layer", 2}, {"head", 1}, {"length", 64}}).json();
  const size_t n = reply["tokens"].size();
  std::map<std::string, json> by_name;
  for (const json& one : reply["mechanisms"]) by_name[one["name"]] = one;
  ASSERT_EQ(by_name.size(), 7u) << reply;
  const json atlas_reply = ask("/atlas", {{"text", kText}}).json();
  EXPECT_EQ(by_name["full"]["pairs"], double(n * n));
  EXPECT_EQ(by_name["full"]["difference"], 0.0);
  EXPECT_EQ(by_name["causal"]["pairs"], double(n * (n + 1) / 2));
  EXPECT_EQ(by_name["linear"]["pairs"], 0.0);
  for (const auto& [name, one] : by_name) {
    EXPECT_GT(one["seconds"].get<double>(), 0) << name;
    if (name != "full") {
      EXPECT_GT(one["difference"].get<double>(), 0) << name;
    }
  }
}

TEST_F(Page, RefusesWhatIsTooMuchOrUnknown) {
  EXPECT_EQ(ask("/atlas", {{"text", kText}, {"texts", 1}}).status, 422);
  EXPECT_EQ(ask("/atlas", json::object()).status, 422);
  EXPECT_EQ(ask("/mean", {{"text", kText}, {"layer", 99}}).status, 422);
  EXPECT_EQ(ask("/mean", {{"text", kText}, {"precision", "float16"}}).status, 422);
  EXPECT_EQ(ask("/mechanisms", {{"text", kText}, {"length", 1'000'000}}).status, 422);
  std::string longer;
  for (int i = 0; i < 4000; ++i) longer += "bank ";
  EXPECT_EQ(ask("/atlas", {{"text", longer}}).status, 413);
  EXPECT_EQ(ask("/mechanisms", {{"text", longer}}).status, 413);
}

TEST_F(Page, EveryPictureTakesHeadsThatAreOff) {
  const json off = {{1, 1}, {2, 2}}, wrong = {{3, 1}};
  for (const char* route : {"/atlas", "/mean", "/rollout", "/attention"}) {
    const json with = ask(route, {{"text", kText}}).json();
    const auto changed = ask(route, {{"text", kText}, {"without", off}});
    ASSERT_EQ(changed.status, 200) << route << changed.body;
    EXPECT_NE(changed.json(), with) << route;
    EXPECT_EQ(ask(route, {{"text", kText}}).json(), with) << route << ": what was kept is another's";
    EXPECT_EQ(ask(route, {{"text", kText}, {"without", wrong}}).status, 422) << route;
  }
}

TEST_F(Page, RolloutIsTheSameWithThePictureKeptAndWithout) {
  const json alone = ask("/rollout", {{"text", "Anna came home."}}).json();
  ask("/atlas", {{"text", "Anna came home."}});
  EXPECT_EQ(ask("/rollout", {{"text", "Anna came home."}}).json(), alone);
  const auto npy = ask("/rollout", {{"text", "Anna came home."}, {"format", "npy"}});
  EXPECT_EQ(npy.status, 200);
  EXPECT_EQ(npy.body.substr(1, 5), "NUMPY");
}

auto served() {
  const TextModel model = load(test::golden_task(kModel));
  return std::make_shared<const serve::ServedModel>(
      serve::ServedModel{.name = "m", .all = model, .one = model});
}
auto attention_of(size_t bytes) {
  auto made = std::make_shared<Attention>();
  made->weights.resize(bytes / sizeof(float));
  return made;
}

TEST(AttentionCache, CountsTextsToo) {
  serve::AttentionCache cache;
  const auto model = served();
  for (size_t i = 0; i < 2 * serve::AttentionCache::kMostEntries; ++i)
    cache.keep({model, std::to_string(i)}, attention_of(8));
  EXPECT_EQ(cache.size(), serve::AttentionCache::kMostEntries);
  const std::string half(serve::AttentionCache::kMostBytes / 2, ' ');
  for (const char* end : {"a", "b"}) cache.keep({model, half + end}, attention_of(8));
  EXPECT_EQ(cache.size(), 1u) << "a long text with few tokens takes room, too";
}

TEST(AttentionCache, KeepsTheLastAndForgetsModelsThatAreGone) {
  serve::AttentionCache cache;
  auto model = served();
  const size_t third = serve::AttentionCache::kMostBytes / 3 + 8;
  for (const char* text : {"a", "b"}) cache.keep({model, text}, attention_of(third));
  EXPECT_NE(cache.find({model, "a"}), nullptr);
  cache.keep({model, "c"}, attention_of(third));
  EXPECT_EQ(cache.find({model, "b"}), nullptr) << "the one that was not used for longest";
  EXPECT_NE(cache.find({model, "a"}), nullptr);
  EXPECT_EQ(cache.find({served(), "a"}), nullptr) << "another model's";
}

}  // namespace
}  // namespace bertie
