// bertie explain and bertie demo: the steps as people and as programs get them.
#include <cmath>

#include "bertie/text_model.h"
#include "program.h"

using namespace bertie::test;

namespace {

using Numbers = std::vector<std::vector<double>>;

size_t columns(const std::string& line) {
  size_t count = 0;
  for (char c : line) count += (c & 0xC0) != 0x80;
  return count;
}

void expect_fits(const Result& r, size_t width) {
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_GT(lines(r.out).size(), 10u) << r.out;
  for (const std::string& line : lines(r.out))  // commands stay whole, to be copied
    EXPECT_TRUE(columns(line) <= width || line.find(" bertie ") != line.npos)
        << columns(line) << ": " << line;
}

void expect_says(const Result& r, const std::string& what) {
  EXPECT_NE(r.out.find(what), std::string::npos) << "no \"" << what << "\" in\n" << r.out;
}

Numbers product(const Numbers& a, const Numbers& b, const std::vector<double>& bias = {}) {
  Numbers out(a.size(), bias.empty() ? std::vector<double>(b[0].size()) : bias);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t c = 0; c < b.size(); ++c)
      for (size_t j = 0; j < b[0].size(); ++j) out[i][j] += a[i][c] * b[c][j];
  return out;
}

Numbers transposed(const Numbers& a) {
  Numbers out(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  return out;
}

void expect_near(const Numbers& got, const Numbers& expected, double close, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size()) << what;
    for (size_t j = 0; j < got[i].size(); ++j)
      EXPECT_NEAR(got[i][j], expected[i][j], close) << what << ' ' << i << ' ' << j;
  }
}

// Everything again, from the numbers that the JSON gives.
void expect_recomputes(const json& s) {
  const auto m = [&](const char* name) { return s[name].get<Numbers>(); };
  const auto b = [&](const char* name) { return s[name].get<std::vector<double>>(); };
  constexpr double kClose = 1e-5;
  expect_near(m("q"), product(m("x"), m("w_q"), b("b_q")), kClose, "q");
  expect_near(m("k"), product(m("x"), m("w_k"), b("b_k")), kClose, "k");
  expect_near(m("v"), product(m("x"), m("w_v"), b("b_v")), kClose, "v");
  expect_near(m("scores"), product(m("q"), transposed(m("k"))), kClose, "scores");
  Numbers scaled = m("scores"), weights = m("scaled");
  for (auto& row : scaled)
    for (double& x : row) x /= std::sqrt(s["d_k"].get<double>());
  expect_near(m("scaled"), scaled, kClose, "scaled");
  for (auto& row : weights) {
    double sum = 0;
    for (double& x : row) sum += x = std::exp(x);
    for (double& x : row) x /= sum;
  }
  expect_near(m("weights"), weights, kClose, "weights");
  expect_near(m("output"), product(m("weights"), m("v")), kClose, "output");
  Numbers own = m("concatenated");  // this head's part of it
  const size_t size = s["v"][0].size(), head = s["head"].get<size_t>() - 1;
  EXPECT_EQ(own[0].size(), size * s["heads"].get<size_t>());
  for (auto& row : own)
    row = {row.begin() + ptrdiff_t(head * size), row.begin() + ptrdiff_t((head + 1) * size)};
  expect_near(m("output"), own, 0, "concatenated");
  expect_near(m("result"), product(m("concatenated"), m("w_o"), b("b_o")), kClose, "result");
}

TEST(Explain, TheExampleComesOutAsPublished) {
  const Result r = run({"explain", "--json"});
  EXPECT_EQ(r.code, 0) << r.err;
  const json s = json::parse(r.out);
  EXPECT_EQ(s["tokens"], json::parse(R"(["You","found","me"])"));
  const auto m = [&](const char* name) { return s[name].get<Numbers>(); };
  expect_near(m("x"), {{.1, .2, .3, .4}, {.5, .6, .7, .8}, {.9, 1.0, 1.1, 1.2}}, 1e-7, "x");
  expect_near(m("q"), {{.06, .08}, {.14, .24}, {.22, .40}}, 1e-7, "q");
  expect_near(m("k"), {{.04, .08}, {.12, .20}, {.20, .32}}, 1e-7, "k");
  expect_near(m("v"), {{.03, .03}, {.11, .11}, {.19, .19}}, 1e-7, "v");
  expect_near(m("output"), {{.1105, .1105}, {.1115, .1115}, {.1125, .1125}}, 5e-5, "output");
  expect_recomputes(s);
  expect_recomputes(json::parse(run({"explain", "--json", "--head", "2"}).out));
}

TEST(Explain, WorksOneNumberOfEachStepOut) {
  const Result r = run({"explain"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  for (const char* line : {
           "Q = X·W^Q   K = X·W^K   V = X·W^V   (3 × 2)",
           "    found    .14    .24      .12    .20      .11    .11\n",
           "    \"found\", first number of Q: .5·0 + .6·.1 + .7·0 + .8·.1 = .14\n",
           "    found  .0248  .0648  .1048\n",
           "    \"found\"·\"me\": .14·.20 + .24·.32 = .1048\n",
           ".1048 / √2 = .1048 / 1.4142 = .0741\n",
           "e^.0741 / (e^.0175 + e^.0458 + e^.0741)",
           "= 1.0769 / 3.1415 = .3428\n",
           "    \"found\", first number: .3240·.03 + .3332·.11 + .3428·.19 = .1115\n",
           "    You    .1105  .1105\n    found  .1115  .1115\n    me     .1125  .1125\n",
           "Concat(head 1, head 2)·W^O   (3 × 4)",
           "    \"found\", first number: .1115·.5 + .1115·0 + .5000·.5 + .8000·0 = .3058\n",
           "rounded",
       })
    expect_says(r, line);
}

TEST(Explain, QueryIsAWordItsLabelOrItsPlace) {
  const ModelFolder model;
  const std::string me = run({"explain", "--query", "me"}).out;
  EXPECT_NE(me.find("\"me\"·\"me\": .22·.20 + .40·.32 = .1720"), std::string::npos) << me;
  EXPECT_EQ(run({"explain", "--query", "3"}).out, me);
  EXPECT_EQ(run({"explain", "--query", "ME"}).out, me);
  const Result none = run({"explain", "--query", "dragon"});
  EXPECT_EQ(none.code, 2) << "the option is wrong, not the text";
  EXPECT_NE(none.err.find("there is no token"), std::string::npos) << none.err;
  const auto query = [&](const std::string& word) {
    const Result r =
        run({"explain", "-m", model.name(), "the bank, unbelievable! The river bank.", "--query", word});
    EXPECT_EQ(r.code, 0) << r.err;
    std::string all = lines(r.out)[1] + ' ' + lines(r.out)[2];
    all = all.substr(all.find("out:") + 6);
    return all.substr(0, all.find('"'));
  };
  EXPECT_EQ(query("bank"), "bank(3)");
  EXPECT_EQ(query("bank(11)"), "bank(11)");
  EXPECT_EQ(query("11"), "bank(11)");
  EXPECT_EQ(query("River"), "river");
  EXPECT_EQ(query("Unbelievable"), "un");
  EXPECT_EQ(query("[CLS]"), "[CLS]");
  EXPECT_EQ(query("##able"), "##able");
}

TEST(Explain, TheWordInTheMiddleIsWorkedOutUnlessAnotherIsNamed) {
  const ModelFolder model;
  const auto worked = [&](const std::string& text) {
    const std::string out =
        run({"explain", "-m", model.name(), text}, {.environment = {{"COLUMNS", "200"}}}).out;
    const size_t begin = out.find("Worked out: \"") + 13;
    return out.substr(begin, out.find('"', begin) - begin);
  };
  EXPECT_EQ(worked("You found me"), "found");
  EXPECT_EQ(worked("You, me"), "me");
  EXPECT_EQ(worked("You!"), "you");
  EXPECT_EQ(worked("unbelievable"), "##believ");
  EXPECT_EQ(worked("!"), "!");
}

TEST(Explain, AModelsNumbersAreThoseItComputesWith) {
  const ModelFolder model;
  const auto encoder = bertie::load(model.path(), {.threads = 1});
  const bertie::Attention single = encoder.attend("You found me."), pair = encoder.attend("You", "me!");
  for (const std::string layer : {"1", "2"})
    for (const std::string head : {"1", "2"}) {
      std::vector<std::string> arguments = {"explain", "-m",  model.name(), "--json",
                                            "--layer", layer, "--head",     head};
      const auto check = [&](const bertie::Attention& expected) {
        const Result r = run(arguments);
        EXPECT_EQ(r.code, 0) << r.err;
        const json s = json::parse(r.out);
        EXPECT_EQ(s["tokens"], json(expected.tokens));
        EXPECT_EQ(s["ids"], json(expected.encoding.ids));
        EXPECT_EQ(s["layer"], std::stoi(layer));
        EXPECT_EQ(s["head"], std::stoi(head));
        const auto weights = expected.at(std::stoul(layer) - 1, std::stoul(head) - 1);
        for (size_t i = 0; i < expected.n(); ++i)
          for (size_t j = 0; j < expected.n(); ++j)
            EXPECT_NEAR(s["weights"][i][j].get<double>(), weights(i, j), 1e-6);
        expect_recomputes(s);
      };
      arguments.push_back("You found me.");
      check(single);
      arguments.back() = "You";
      arguments.insert(arguments.end(), {"--pair", "me!"});
      check(pair);
    }
}

// The right side of "…: .14·.20 + .24·.32 + .05 (60 more terms) = .1048" and what its left side comes to.
std::pair<double, double> by_pocket_calculator(const std::string& worked) {
  const size_t begin = worked.find(": ") + 2, end = worked.rfind(" = ");
  double sum = 0;
  for (size_t at = begin; at < end;) {
    const size_t next = std::min(worked.find(" + ", at), end);
    const std::string term = worked.substr(at, next - at);
    const size_t dot = term.find("·");
    sum += dot == term.npos ? std::stod(term) : std::stod(term) * std::stod(term.substr(dot + 2));
    at = next + 3;
  }
  return {std::stod(worked.substr(end + 3)), sum};
}

TEST(Explain, WhatIsWorkedOutCanBeCheckedFromTheDigitsShown) {
  const ModelFolder model;
  const How wide{.environment = {{"COLUMNS", "1000"}}};
  std::string long_text;
  for (int i = 0; i < 15; ++i) long_text += "river bank ";
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"--head", "2", "--query", "me"},
                                               {"-m", model.name(), "You found me."},
                                               {"-m", model.name(), "--layer", "2", "--head", "2", "--query",
                                                "river", "the river bank found me, unbelievable!"},
                                               {"-m", model.name(), "--layer", "2", long_text}}) {
    std::vector<std::string> arguments{"explain"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    size_t checked = 0;
    for (const std::string& line : lines(run(arguments, wide).out)) {
      if (line.find("first number") == line.npos && line.find("\"·\"") == line.npos) continue;
      if (line.find("√") != line.npos) continue;
      const auto [shown, sum] = by_pocket_calculator(line);
      EXPECT_NEAR(shown, sum, 2e-3) << line;
      ++checked;
    }
    EXPECT_EQ(checked, 6u);
  }
}

TEST(Explain, FitsTheTerminal) {
  const ModelFolder model;
  std::string sentence = "the bank, unbelievable! The river bank found me.", long_text;
  for (int i = 0; i < 15; ++i) long_text += "river bank ";
  for (const size_t width : {40u, 80u, 120u}) {
    const How how{.environment = {{"COLUMNS", std::to_string(width)}}};
    expect_fits(run({"explain"}, how), width);
    expect_fits(run({"explain", "--head", "2", "--query", "You"}, how), width);
    expect_fits(run({"explain", "-m", model.name(), sentence}, how), width);
    expect_fits(run({"explain", "-m", model.name(), sentence, "--pair", long_text.substr(0, 50)}, how),
                width);
    expect_fits(run({"explain", "-m", model.name(), long_text}, how), width);
  }
}

TEST(Explain, WideMatricesSayHowMuchIsNotShown) {
  const ModelFolder model;
  const Result r = run({"explain", "-m", model.name(), "You found me"});
  expect_says(r, "X   (5 × 64)");
  expect_says(r, "57 columns not shown");
  expect_says(r, "in --json");
  expect_says(r, "60 more terms");
}

TEST(Explain, LongTextsDoNotFlood) {
  const ModelFolder model;
  std::string text;
  for (int i = 0; i < 15; ++i) text += "river bank ";
  const Result r = run({"explain", "-m", model.name(), text, "--query", "20"});
  EXPECT_LT(lines(r.out).size(), 140u);
  expect_says(r, "26 others");
  expect_says(r, "river(20)\" looks at ");
  const json s = json::parse(run({"explain", "-m", model.name(), text, "--json"}).out);
  EXPECT_EQ(s["weights"].size(), 32u);
  EXPECT_EQ(s["x"].size(), 32u);
  expect_recomputes(s);
}

TEST(Explain, OnlyAnExplicitModelOrATextReplacesTheExample) {
  const ModelFolder model;
  const How with_model{.environment = {{"BERTIE_MODEL", model.name()}}};
  EXPECT_EQ(run({"explain"}, with_model).out, run({"explain"}).out);
  EXPECT_NE(run({"explain", "You"}, with_model).out.find("layer 1 of 2, head 1 of 2"), std::string::npos);
  const Result named = run({"explain", "-m", model.name()});
  EXPECT_NE(named.out.find("\"You found me\"\n"), std::string::npos);
  EXPECT_NE(named.out.find("5 tokens of 64"), std::string::npos);
}

TEST(Explain, WhatIsWrongIsSaidWithWhatToTry) {
  const ModelFolder model;
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "you ";
  struct Wrong {
    std::vector<std::string> arguments;
    int code;
    std::string what, hint;
  };
  const std::vector<Wrong> all = {
      {{"--layer", "2"}, 2, "no layer 2: the worked example has 1", "--layer 1"},
      {{"--head", "3"}, 2, "no head 3: the worked example has 2", "--head 2"},
      {{"--query", "us"}, 2, "no token \"us\"", "You found me"},
      {{"--query", "4"}, 2, "no token \"4\"", "from 1 to 3"},
      {{"--head", "0"}, 2, "whole number from 1", "--head 1"},
      {{"--json", "--query", "me"}, 2, "--query has no place", "leave --query out"},
      {{"--pair", "me"}, 2, "there is no first", "--pair"},
      {{"-m", "/no/such/model"}, 1, "no model \"/no/such/model\"", "config.json"},
      {{"-m", model.name(), "--layer", "3", "you"}, 2, "no layer 3: this model has 2", "--layer 2"},
      {{"-m", model.name(), "--head", "3", "you"}, 2, "no head 3: this model has 2", "--head 2"},
      {{"-m", model.name(), "--query", "river", "you"}, 2, "no token \"river\"", "[CLS] you [SEP]"},
      {{"-m", model.name(), "--query", "", "you"}, 2, "no token \"\"", "from 1 to 3"},
      {{"-m", model.name(), ""}, 1, "no words", "at least one word"},
      {{"-m", model.name(), " \t "}, 1, "no words", "at least one word"},
      {{"-m", model.name(), "you", "--pair", ""}, 1, "no words", "at least one word"},
      {{"-m", model.name(), long_text}, 1, "42 tokens", "shorter"},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(testing::PrintToString(wrong.arguments));
    std::vector<std::string> arguments = wrong.arguments;
    arguments.insert(arguments.begin(), "explain");
    const Result r = run(arguments);
    EXPECT_EQ(r.code, wrong.code);
    EXPECT_EQ(r.out, "");
    ASSERT_EQ(lines(r.err).size(), 2u) << r.err;
    EXPECT_NE(lines(r.err)[0].find(wrong.what), std::string::npos) << r.err;
    EXPECT_NE(lines(r.err)[1].find(wrong.hint), std::string::npos) << r.err;
  }
}

// A golden model with the words of program.h.
class FamilyFolder : public TemporaryFolder {
 public:
  explicit FamilyFolder(const std::string& family) {
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(source_dir() / "tests/golden/families" / family / name, *this / name);
    write_all(*this / "vocab.txt", kVocabulary);
  }
  std::string name() const { return path().string(); }
};

TEST(Explain, DividesScoresByWhatTheModelDoes) {
  const FamilyFolder model("gpt2-base-1");  // which divides by the layer's number too
  const json s =
      json::parse(run({"explain", "-m", model.name(), "--json", "--layer", "2", "You found me"}).out);
  const double root = std::sqrt(s["d_k"].get<double>());
  EXPECT_EQ(s["causal"], true);
  EXPECT_NEAR(s["scale"].get<double>(), 1 / (2 * root), 1e-6);
  const Result r = run({"explain", "-m", model.name(), "--layer", "2", "You found me"});
  EXPECT_NE(r.out.find("softmax(Q·Kᵀ / (2·√" + std::to_string(s["d_k"].get<int>()) + "))·V"),
            std::string::npos)
      << r.out;
}

TEST(Explain, CountsLayersThatShareAGroup) {
  const FamilyFolder model("albert-base-1");  // inner_group_num 2
  const json config = json::parse(read_all(model / "config.json"));
  const size_t layers = 2 * config["num_hidden_layers"].get<size_t>();
  for (const char* command : {"attend", "explain"})
    EXPECT_EQ(run({command, "-m", model.name(), "--layer", std::to_string(layers), "you"}).code, 0)
        << command;
  EXPECT_EQ(json::parse(run({"info", "--json", model.name()}).out)["layers"], layers);
}

TEST(Explain, DoesNotShowAttentionThatTheModelDoesNotCompute) {
  const ModelFolder model;
  json config = json::parse(read_all(model / "config.json"));
  config["attention"] = {{"look", "window"}, {"before", 1}, {"after", 1}};
  write_all(model / "config.json", config.dump());
  const Result r = run({"explain", "-m", model.name(), "you found me"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("try: bertie attend shows its weights"), std::string::npos) << r.err;
}

TEST(Explain, WorksOnARealModel) {
  const fs::path model = data("models/all-MiniLM-L6-v2");
  BERTIE_NEEDS(model);
  const std::string text = "The bank deposited the money near the river bank.";
  const Result r =
      run({"explain", "-m", model.string(), text, "--layer", "3", "--head", "2", "--query", "bank"});
  EXPECT_EQ(r.code, 0) << r.err;
  expect_says(r, "layer 3 of 6, head 2 of 12, 12 tokens of 384");
  expect_says(r, "\"bank(3)\" (also at 10: --query 10)");
  expect_says(r, "softmax(Q·Kᵀ / √32)·V   (12 × 32)");
  expect_fits(r, 80);
  const Result exact = run({"explain", "-m", model.string(), text, "--layer", "3", "--head", "2", "--json"});
  const json s = json::parse(exact.out);
  EXPECT_EQ(s["w_q"].size(), 384u);
  EXPECT_EQ(s["w_o"].size(), 384u);
  expect_recomputes(s);
  const auto encoder = bertie::load(model, {.threads = 1});
  const bertie::Attention attention = encoder.attend(text);
  const auto weights = attention.at(2, 1);
  for (size_t i = 0; i < 12; ++i)
    for (size_t j = 0; j < 12; ++j) EXPECT_NEAR(s["weights"][i][j].get<double>(), weights(i, j), 1e-6);
}

TEST(Explain, TheWorkedExamplesPageShowsWhatTheProgramPrints) {
  const std::string printed = run({"explain"}).out + run({"explain", "--head", "2"}).out;
  const std::string page = read_all(source_dir() / "docs/attention/worked-example.md"), fence = "```text\n";
  size_t tables = 0;
  for (size_t begin = 0; (begin = page.find(fence, begin)) != page.npos; ++tables) {
    begin += fence.size();
    const std::string table = page.substr(begin, page.find("```", begin) - begin);
    EXPECT_NE(printed.find(table), std::string::npos) << table;
    begin = page.find("```", begin) + 3;
  }
  EXPECT_GE(tables, 15u);
}

TEST(Demo, ShowsTheStepsOfTheExample) {
  const Result r = run({"demo"});
  EXPECT_EQ(r.code, 0);
  expect_says(r, "    me     .1125  .1125\n");
  expect_says(r, "bertie explain");
  EXPECT_EQ(r.out.find("first number"), std::string::npos) << "numbers are worked out by explain";
  EXPECT_EQ(run({"demo", "--json"}).out, run({"explain", "--json"}).out);
}

TEST(Demo, FitsEightyColumnsAndSaysHowToGoOn) {
  const ModelFolder model;
  const Result alone = run({"demo"});
  expect_says(alone, "Your turn: ");
  const Result with_model =
      run({"demo"}, {.environment = {{"BERTIE_MODEL", model.name()}, {"COLUMNS", "80"}}});
  expect_says(with_model, "$ bertie attend \"Mary said that she had lost her book.\"\n");
  expect_says(with_model, "layer 2 of 2, mean of 2 heads");
  const Result named = run({"demo", "-m", model.name()});
  expect_says(named, "$ bertie attend");
  expect_says(named, model.name());
  for (const Result& r : {alone, with_model}) expect_fits(r, 80);
}

TEST(Demo, FitsANarrowTerminal) {
  Result r = run({"demo"}, {.environment = {{"COLUMNS", "64"}}});
  const size_t tagged = r.out.find("[Barack");  // a text as it is, which a terminal breaks
  r.out.erase(tagged, r.out.find('\n', tagged) - tagged);
  expect_fits(r, 64);
}

TEST(Demo, HasAScreenForAllThatTheModelInTheBoxDoes) {
  const Result r = run({"demo"});
  for (const char* shown : {"1/8", "door", "follows", "[Barack Obama PER]", "positive", "negative", "0.9286",
                            "bank in 4 places", "layer 1 of 6, head 7 of 8", "8/8"})
    expect_says(r, shown);
}

TEST(Demo, EndsWhereInputEnds) {
  const Result r = run({"demo"}, {.input = "\n\x04", .terminal = true});
  EXPECT_EQ(r.code, 0) << r.err;
  expect_says(r, "2/8");
  EXPECT_EQ(r.out.find("3/8"), std::string::npos) << r.out;
}

}  // namespace
