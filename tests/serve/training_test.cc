// Logs of runs, as the page asks for them.
#include "serve/training.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bertie/error.h"
#include "serve/client.h"
#include "serve/small_models.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using nlohmann::json;
using serve::TrainingLog;

std::string step_line(int step, double loss) {
  return json{{"step", step}, {"tokens", 100 * step}, {"loss", loss}}.dump() + "\n";
}
std::string evaluation_line(int step, double loss) {
  return json{{"step", step}, {"held_out_loss", loss}}.dump() + "\n";
}

TEST(TrainingLog, IsReadAsItGrowsAndAnewWhereLinesWereTakenBack) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder.path() / "log.jsonl";
  TrainingLog log(file);
  EXPECT_TRUE(log.curves(400)["points"].empty()) << "there is no file yet";
  const auto write = [&](const std::string& text, std::ios::openmode how = std::ios::app) {
    std::ofstream(file, how) << text;
  };
  write(step_line(1, 9) + step_line(2, 8) + "{\"step\":3,\"tok");
  EXPECT_EQ(log.curves(400)["points"]["loss"], json({9.0, 8.0})) << "a line that is not whole waits";
  write("ens\":300,\"loss\":7}\n" + evaluation_line(3, 7.5));
  EXPECT_EQ(log.curves(400)["points"]["loss"], json({9.0, 8.0, 7.0}));
  EXPECT_EQ(log.curves(400)["evaluations"], json::array({{{"step", 3}, {"held_out_loss", 7.5}}}));
  write(step_line(1, 9) + step_line(2, 5) + step_line(3, 4) + step_line(4, 3) + step_line(5, 2),
        std::ios::trunc);
  EXPECT_EQ(log.curves(400)["points"]["loss"], json({9.0, 5.0, 4.0, 3.0, 2.0}))
      << "another run, longer by now";
  EXPECT_EQ(log.curves(400)["step"], 5);
  write(step_line(1, 9), std::ios::trunc);
  EXPECT_EQ(log.curves(400)["points"]["loss"], json({9.0}));
  EXPECT_TRUE(log.curves(400)["evaluations"].empty());
}

TEST(TrainingLog, ThinsByMeansAndTakesWhateverALineHas) {
  std::string text = "no JSON\n[1]\n{\"tokens\":1}\n{\"step\":\"x\",\"tokens\":1}\n";
  for (int step = 1; step <= 100; ++step) text += step_line(step, step);
  text += "{\"step\":101,\"tokens\":10100,\"loss\":null,\"extra\":4}";
  TrainingLog log{std::string_view(text)};
  const json thin = log.curves(10);
  ASSERT_EQ(thin["points"]["loss"].size(), 10u);
  EXPECT_EQ(thin["points"]["loss"][0], 5.5);
  EXPECT_NEAR(thin["points"]["loss"][9].get<double>(), 95.5, 0.6) << "what is no number is in no mean";
  EXPECT_TRUE(thin["points"]["extra"][0].is_null());
  EXPECT_EQ(thin["points"]["extra"][9], 4);
}

TEST(Training, ServesRunsByName) {
  const Server server(test::small_models());
  EXPECT_EQ(test::get(server.port(), "/training").json(), json({{"runs", {"run"}}}));
  const json run = test::get(server.port(), "/training/run").json();
  EXPECT_EQ(run["points"]["step"], json({10, 20, 30, 40, 50}));
  EXPECT_EQ(run["evaluations"][1]["watched"][0]["masks"][0][0]["token"], "paris");
  for (const char* other : {"/training/other", "/training/..%2Frun", "/training/%00"})
    EXPECT_EQ(test::get(server.port(), other).status, 404) << other;
}

// `model` with one file more, in memory.
std::map<std::string, std::string> with_file(const char* model, const std::string& name,
                                             const std::string& text) {
  std::map<std::string, std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_task(model))) {
    std::ifstream in(entry.path(), std::ios::binary);
    texts[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
  }
  texts[name] = text;
  return texts;
}

ServeOptions serving(const std::map<std::string, std::string>& texts) {
  std::map<std::string, std::span<const std::byte>, std::less<>> files;
  for (const auto& [name, text] : texts) files[name] = std::as_bytes(std::span(text));
  ServeOptions options = test::no_models();
  options.models.push_back({"small", ModelFiles::in_memory(files, "small")});
  return options;
}

TEST(Training, ARunIsAFolderWithANameOfItsOwn) {
  const test::TempFolder folder;
  ServeOptions options = test::one_model();
  options.runs = {{"nothing", folder.path() / "none"}};
  test::expect_error("there is no run", [&] { Server server(options); });
  options.runs = {{"same", folder.path()}, {"same", folder.path()}};
  test::expect_error("two runs are called same", [&] { Server server(options); });
  options.runs = {{"early", folder.path()}};
  const Server server(options);
  EXPECT_TRUE(test::get(server.port(), "/training/early").json()["evaluations"].empty()) << "no log yet";
}

TEST(Training, AModelMayBringItsLog) {
  const auto files = with_file("fill-mask-bert", "training.jsonl", step_line(1, 9));
  const Server server(serving(files));
  EXPECT_EQ(test::get(server.port(), "/training/small").json()["points"]["loss"], json({9.0}));
}

TEST(Heads, AModelMayBringWhatIsKnownOfThem) {
  const Server server(test::small_models());
  EXPECT_EQ(test::get(server.port(), "/heads").json(), json({{"models", {"fill-mask-bert"}}}));
  EXPECT_EQ(test::get(server.port(), "/heads/fill-mask-bert").json()["heads"], 2);
  for (const char* other : {"/heads/nli", "/heads/none", "/heads/..%2Ffill-mask-bert"})
    EXPECT_EQ(test::get(server.port(), other).status, 404) << other;
  for (const char* bad : {"", "[]", "{\"layers\": 2, \"heads\": 2}", "{\"layers\": [], \"heads\": \"x\"}"}) {
    const auto files = with_file("fill-mask-bert", "heads.json", bad);
    const Server with_bad_file(serving(files));
    EXPECT_EQ(test::get(with_bad_file.port(), "/heads").json(), json({{"models", json::array()}})) << bad;
    const test::Reply reply = test::get(with_bad_file.port(), "/heads/small");
    EXPECT_EQ(reply.status, 404) << bad;
    EXPECT_NE(reply.body.find("bertie heads --json"), std::string::npos) << reply.body;
  }
}

}  // namespace
}  // namespace bertie
