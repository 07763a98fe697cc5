// bertie bench attention: what it prints and draws. How fast anything is, is no matter here.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "program.h"

using namespace bertie::test;

namespace {

const std::vector<std::string> kMechanisms = {
    "full",     "exact",   "causal", "window128", "window256",     "window_and_global",
    "big_bird", "strided", "fixed",  "mask",      "adaptive_span", "dropout",
    "additive", "general", "linear", "performer", "linformer",     "nystrom"};

Result bench(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "attention"});
  return run(more);
}

// Measured once for all tests that need every mechanism: 8 and 16 tokens, two heads of 4.
const std::string& measured() {
  static const std::string lines_ = [] {
    std::string all;
    for (const char* n : {"8", "16"}) {
      const Result r = bench({"--n", n, "--heads", "2", "--head-size", "4", "--threads", "1", "--seconds",
                              "0.001", "--json", "--quiet"});
      EXPECT_EQ(r.code, 0) << r.err;
      EXPECT_EQ(r.err, "");
      all += r.out;
    }
    return all;
  }();
  return lines_;
}

// Every element is closed in the right order and every & begins an entity: all that may go wrong in a file
// that is written from a few patterns.
void expect_well_formed(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ")) << svg.substr(0, 100);
  std::vector<std::string> open;
  for (size_t at = 0; (at = svg.find('<', at)) != svg.npos;) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, svg.npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    ASSERT_EQ(tag.find('<'), tag.npos) << tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(tag, "/" + open.back());
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
  for (size_t at = 0; (at = svg.find('&', at)) != svg.npos; ++at) {
    const std::string entity = svg.substr(at, svg.find(';', at) - at);
    EXPECT_TRUE(std::set<std::string>({"&amp", "&lt", "&gt", "&quot"}).contains(entity)) << entity;
  }
  for (const char* foreign : {"<script", "href", "@import", "url(", "nan", " inf", "-inf", "\"inf"})
    EXPECT_EQ(svg.find(foreign), svg.npos) << foreign;
}

TEST(BenchAttention, EveryMechanismComesAsAJsonLineForEachPass) {
  std::map<std::string, size_t> points;
  for (const std::string& line : lines(measured())) {
    const json point = json::parse(line);
    ++points[point["mechanism"].get<std::string>()];
    EXPECT_TRUE(point["n"] == 8 || point["n"] == 16);
    EXPECT_EQ(point["threads"], 1);
    EXPECT_GT(point["milliseconds"].get<double>(), 0);
    EXPECT_GE(point["median_milliseconds"].get<double>(), point["milliseconds"].get<double>());
    EXPECT_GT(point["gflops"].get<double>(), 0);
    EXPECT_GT(point["memory_bytes"].get<size_t>(), 0u);
    EXPECT_TRUE(point["resident_growth_bytes"].is_null() || point["resident_growth_bytes"].is_number());
  }
  EXPECT_EQ(points.size(), kMechanisms.size());
  for (const std::string& name : kMechanisms) EXPECT_EQ(points[name], name == "exact" ? 2u : 4u) << name;
}

TEST(BenchAttention, PairsAreThoseThatAQuerySees) {
  std::map<std::string, double> pairs;
  for (const std::string& line : lines(measured())) {
    const json point = json::parse(line);
    if (point["n"] == 16) pairs[point["mechanism"]] = point["pairs"];
  }
  EXPECT_EQ(pairs["full"], 2 * 16 * 16);
  EXPECT_EQ(pairs["causal"], 2 * 16 * 17 / 2);
  EXPECT_EQ(pairs["window256"], 2 * 16 * 16);
  const json long_window = json::parse(bench({"--n", "300", "--heads", "1", "--head-size", "4", "--mechanism",
                                              "window128", "--forward", "--seconds", "0.001", "--json"})
                                           .out);
  EXPECT_EQ(long_window["pairs"], 300 * 257 - 128 * 129);
}

TEST(BenchAttention, ATableEndsInPlainWords) {
  const Result r = bench({"--max-n", "256", "--mechanism", "full", "--mechanism", "window256", "--heads", "1",
                          "--head-size", "4", "--threads", "1", "--seconds", "0.001", "--forward"});
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* said :
       {" full ", " window256 ", "Twice the tokens", "At n = 256, forward: window256 takes"})
    EXPECT_NE(r.out.find(said), r.out.npos) << said << "\n" << r.out;
}

// bench/plot_attention.cc
Result plot(const fs::path& points, const fs::path& folder) {
  return run_shell(
      fmt::format("{}/bertie_plot_attention {} {}", BERTIE_BINARY_DIR, points.string(), folder.string()));
}

TEST(BenchAttention, OfTwoMeasurementsTheFastestIsDrawn) {
  const TemporaryFolder folder;
  write_all(folder / "points.jsonl", measured());
  json slower = json::parse(lines(measured())[0]);
  slower["milliseconds"] = slower["milliseconds"].get<double>() + 1;
  write_all(folder / "twice.jsonl", slower.dump() + "\n" + measured());
  EXPECT_EQ(plot(folder / "points.jsonl", folder / "once").code, 0);
  EXPECT_EQ(plot(folder / "twice.jsonl", folder / "twice").code, 0);
  EXPECT_FALSE(read_all(folder / "once/time.svg").empty());
  EXPECT_EQ(read_all(folder / "once/time.svg"), read_all(folder / "twice/time.svg"));
}

TEST(BenchAttention, PlotsAreWellFormedAndNameEveryMechanism) {
  const TemporaryFolder folder;
  write_all(folder / "points.jsonl", measured());
  const Result r = plot(folder / "points.jsonl", folder / "drawn");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* overview : {"drawn/time.svg", "drawn/memory.svg"}) {
    const std::string svg = read_all(folder / overview);
    expect_well_formed(svg);
    for (const std::string& name : kMechanisms) EXPECT_NE(svg.find(">" + name + "<"), svg.npos) << name;
  }
  for (const std::string& name : kMechanisms) {
    const std::string svg = read_all(folder / ("drawn/plots/" + name + ".svg"));
    expect_well_formed(svg);
    EXPECT_NE(svg.find(">" + name + "<"), svg.npos) << name;
    EXPECT_NE(svg.find(">full<"), svg.npos) << name;
  }
}

TEST(BenchAttention, AWrongMechanismIsNamedWithTheNearestOne) {
  for (const auto& [wrong, right] : std::map<std::string, std::string>{
           {"windw256", "window256"}, {"big-bird", "big_bird"}, {"nyström", "nystrom"}}) {
    const Result r = bench({"--mechanism", wrong});
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find("not \"" + wrong + "\""), r.err.npos) << r.err;
    EXPECT_NE(r.err.find("try: --mechanism " + right + "\n"), r.err.npos) << r.err;
  }
  EXPECT_NE(bench({"--mechanism", "telepathy"}).err.find("takes full, exact, causal"), std::string::npos);
  EXPECT_NE(bench({"--mechanism", "additive", "--n", "4096"}).err.find("up to n = 2048"), std::string::npos);
}

TEST(BenchAttention, AFileThatHoldsSomethingElseIsAnErrorThatNamesTheLine) {
  const TemporaryFolder folder;
  const std::string first = lines(measured())[0] + "\n";
  json other_threads = json::parse(first);
  other_threads["threads"] = 2;
  for (const std::string& second : {std::string("{"), std::string("{\"n\": 8}"), other_threads.dump()}) {
    write_all(folder / "points.jsonl", first + second + "\n");
    const Result r = plot(folder / "points.jsonl", folder / "drawn");
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("points.jsonl:2: "), r.err.npos) << r.err;
  }
  write_all(folder / "points.jsonl", "\n");
  EXPECT_NE(plot(folder / "points.jsonl", folder / "drawn").err.find("no measurements"), std::string::npos);
  EXPECT_EQ(plot(folder / "none.jsonl", folder / "drawn").code, 1);
  EXPECT_EQ(plot(folder / "points.jsonl", "/dev/null").code, 1);
}

}  // namespace
