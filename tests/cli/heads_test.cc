// bertie heads, bertie prune, and attend, fill-mask, classify and evaluate with heads off.
#include "bertie/heads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bertie/explain.h"
#include "bertie/files.h"
#include "bertie/json.h"
#include "cli/program.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace bertie::test {
namespace {

std::string golden(const std::string& name) { return (source_dir() / "tests/golden/tasks" / name).string(); }

const std::string kTreebank =
    "# text = Anna came.\n1\tAnna\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tcame\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    "3\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_\n\n";

TEST(CliHeads, WithoutSomeAttendFillMaskAndClassifyAreTheLibrarys) {
  const TextModel bert = load(golden("fill-mask-bert")).without({{0, 1}, {1, 0}, {1, 1}});
  const Result attend =
      run({"attend", "-m", golden("fill-mask-bert"), "--json", "--without", "1-2,2", "Anna came."});
  ASSERT_EQ(attend.code, 0) << attend.err;
  EXPECT_EQ(attend.out, to_json(bert.attend("Anna came."), {.index = 0, .text = "Anna came."}) + "\n");
  const Result fill = run(
      {"fill-mask", "-m", golden("fill-mask-bert"), "--json", "--without", "1-2,2-1,2-2", "Anna [MASK]."});
  EXPECT_EQ(fill.out, to_json(bert.fill_mask("Anna [MASK]."), {.index = 0, .text = "Anna [MASK]."}) + "\n");
  const Result classify =
      run({"classify", "-m", golden("text-classification-bert"), "--json", "--without", "1-1", "A film."});
  EXPECT_EQ(classify.out,
            to_json(load(golden("text-classification-bert")).without({{0, 0}}).classify("A film."),
                    {.index = 0, .text = "A film."}) +
                "\n");
}

TEST(CliHeads, ThatAreNotThereAreTheCommandLinesFault) {
  for (const char* bad :
       {"3-1", "1-3", "0-1", "1-0", "x", "1-", "-1", "", "1-1,", "1-1-1", "1 1", "99999999999999999999"}) {
    const Result r = run({"attend", "-m", golden("fill-mask-bert"), std::string("--without=") + bad, "Anna"});
    EXPECT_EQ(r.code, 2) << bad << r.err;
    EXPECT_NE(r.err.find("--without"), std::string::npos) << r.err;
  }
}

TEST(CliHeads, RolloutAndGradientAreTheLibrarys) {
  const TextModel bert = load(golden("fill-mask-bert"));
  const Result rolled =
      run({"attend", "-m", golden("fill-mask-bert"), "--rollout", "--json", "--layer", "1", "Anna came."});
  ASSERT_EQ(rolled.code, 0) << rolled.err;
  EXPECT_EQ(json::parse(rolled.out)["weights"][0].get<std::vector<float>>(), [&] {
    const Grid g = rollout(bert.attend("Anna came."), 1);
    return std::vector<float>(g.values.begin(), g.values.begin() + ptrdiff_t(g.cols));
  }());
  const Result shown = run({"attend", "-m", golden("fill-mask-bert"), "--rollout", "Anna came."});
  EXPECT_NE(shown.out.find("rollout over 2 of 2 layers"), std::string::npos) << shown.out;

  const std::string text = "The [MASK] came to the [MASK].";
  const AttentionGradient expected = attention_gradient(bert, text, {.name = "the", .mask = 1});
  const Result gradient =
      run({"attend", "-m", golden("fill-mask-bert"), "--gradient", "the", "--mask", "2", "--json", text});
  ASSERT_EQ(gradient.code, 0) << gradient.err;
  EXPECT_EQ(json::parse(gradient.out)["logit"].get<double>(), expected.logit);
  EXPECT_EQ(json::parse(gradient.out)["weights"][1][0][2][3].get<float>(), expected.attention.at(1, 0)(2, 3));
  const Result list = run({"attend", "-m", golden("fill-mask-bert"), "--gradient", "", "--top", "3", text});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 6)
      << list.out;  // a line, a gap, headings and three
  const Result label =
      run({"attend", "-m", golden("text-classification-bert"), "--gradient", "positive", "A film."});
  EXPECT_NE(label.out.find("the label positive"), std::string::npos) << label.out << label.err;

  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--rollout", "--gradient", "x"},
                                             {"--rollout", "--head", "1"},
                                             {"--mask", "1"},
                                             {"--rollout", "--npy", "x"}}) {
    std::vector<std::string> arguments{"attend", "-m", golden("fill-mask-bert"), "Anna [MASK]"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(run(arguments).code, 2) << wrong[0];
  }
}

TEST(CliHeads, AreShownAsATableAndAsJson) {
  const TempFolder folder;
  const std::string file = folder.write("a.conllu", kTreebank).string();
  std::string many = kTreebank;
  for (size_t i = 0; i < 20; ++i) many += kTreebank;
  const std::string all = folder.write("many.conllu", many).string();
  const Result table = run({"heads", "-m", golden("fill-mask-bert"), "--data", all, "--ablate", "40"});
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* part : {"2 layers of 2 heads, over 21 sentences", "What layers look at", "nsubj",
                           "Jensen-Shannon", "Without a head: loss"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  const Result each = run({"heads", "-m", golden("fill-mask-bert"), "--each", "Anna came.", "The harbour."});
  EXPECT_NE(each.out.find("2-2"), std::string::npos) << each.out << each.err;

  const Result reply =
      run({"heads", "-m", golden("fill-mask-bert"), "--data", all, "--json", "--no-random", "--limit", "20"});
  ASSERT_EQ(reply.code, 0) << reply.err;
  const json j = json::parse(reply.out);
  EXPECT_EQ(j["sentences"], 20);
  EXPECT_EQ(j["shares"].size(), 4u);
  EXPECT_EQ(j["relations"].size(), 2u);
  EXPECT_FALSE(j["relations"][0].contains("random_accuracy"));
  EXPECT_EQ(j["divergence"].size(), 4u);

  EXPECT_EQ(run({"heads", "-m", golden("fill-mask-bert"), "--data", file, "Anna"}).code, 2);
  const Result bad =
      run({"heads", "-m", golden("fill-mask-bert"), "--data", folder.write("b", "a b c\n").string()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("line 1: 1 column"), std::string::npos) << bad.err;
}

TEST(CliHeads, TellPronounsApartByGapsRowsAndSayWhichRowIsBad) {
  const TempFolder folder;
  const std::string header =
      "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n";
  const std::string row = "1\tAnna met Maria when she came.\tshe\t20\tAnna\t0\tTRUE\tMaria\t9\tFALSE\tu\n";
  const std::string neither =
      "2\tAnna met Maria when she came.\tshe\t20\tAnna\t0\tFALSE\tMaria\t9\tFALSE\tu\n";
  const std::string good = folder.write("gap.tsv", header + row + neither).string();
  const Result table = run({"heads", "-m", golden("fill-mask-bert"), "--gap", good});
  EXPECT_NE(table.out.find("1 pronouns that mean one of two names"), std::string::npos)
      << table.out << table.err;
  const Result reply = run({"heads", "-m", golden("fill-mask-bert"), "--gap", good, "--json", "--no-random"});
  EXPECT_EQ(json::parse(reply.out)["count"], 1);
  for (const std::string bad :
       {"1\tAnna\n", "1\tAnna met Maria\tshe\t20\tAnna\t0\tTRUE\tMaria\t9\tFALSE\tu\n",
        "1\tAnna met Maria when she came.\tshe\tx\tAnna\t0\tTRUE\tMaria\t9\tFALSE\tu\n"}) {
    const Result r = run(
        {"heads", "-m", golden("fill-mask-bert"), "--gap", folder.write("bad.tsv", header + bad).string()});
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("line 2: this is no row of GAP"), std::string::npos) << r.err;
  }
  EXPECT_EQ(
      run({"heads", "-m", golden("fill-mask-bert"), "--gap", folder.write("none.tsv", header).string()}).code,
      1);
  EXPECT_EQ(run({"heads", "-m", golden("fill-mask-bert"), "--gap", good, "--each"}).code, 2);
}

TEST(CliHeads, ArePrunedByNameAndByImportance) {
  const TempFolder folder;
  const std::string to = (folder.path() / "less").string();
  const Result named = run({"prune", "-m", golden("fill-mask-bert"), to, "--heads", "1-2"});
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("without 1 heads (1-2)"), std::string::npos) << named.out;
  const std::string text = "Anna [MASK].";
  EXPECT_EQ(run({"fill-mask", "-m", to, "--json", text}).out,
            run({"fill-mask", "-m", golden("fill-mask-bert"), "--without", "1-2", "--json", text}).out);
  EXPECT_EQ(run({"prune", "-m", golden("fill-mask-bert"), to, "--heads", "1-1"}).code,
            1);  // it is there already
  const std::string texts = folder.write("texts.txt", "Anna came.\n\nThe old harbour is small.\n").string();
  const Result share = run(
      {"prune", "-m", golden("fill-mask-bert"), to, "--force", "--share", "0.5", "--file", texts, "--json"});
  ASSERT_EQ(share.code, 0) << share.err;
  EXPECT_EQ(json::parse(share.out)["removed"], 2);
  const std::string rows =
      folder.write("rows.tsv", "sentence\tlabel\nA film.\tpositive\nOld.\tnegative\n").string();
  const Result data = run({"prune", "-m", golden("text-classification-bert"), (folder.path() / "c").string(),
                           "--share", "0.5", "--data", rows, "--json"});
  ASSERT_EQ(data.code, 0) << data.err;
  EXPECT_GT(json::parse(data.out)["removed"].get<size_t>(), 0u);
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"prune", "-m", golden("fill-mask-bert"), to},
           {"prune", "-m", golden("fill-mask-bert"), "--heads", "1-1"},
           {"prune", "-m", golden("fill-mask-bert"), to, "--heads", "1-1", "--share", "0.5"},
           {"prune", "-m", golden("fill-mask-bert"), to, "--heads", "9-9"},
           {"prune", "-m", golden("fill-mask-bert"), to, "--heads", "1-1", "--file", texts}})
    EXPECT_EQ(run(wrong).code, 2) << wrong.size();
}

TEST(CliHeads, OffInAnEvaluationAreOffInOneModelAlone) {
  const TempFolder folder;
  const std::string rows =
      folder.write("rows.tsv", "sentence\tlabel\nA film.\tpositive\nOld.\tnegative\nAnna came.\tneutral\n")
          .string();
  const Result r =
      run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--data", rows, "--without",
           "1,2", "--compare", golden("text-classification-bert"), "--json", "--bootstrap", "10"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Result plain = run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--data", rows,
                            "--json", "--bootstrap", "10"});
  // The second line is of the model as it is.
  const auto second = [](const std::string& out, size_t line) {
    std::istringstream text(out);
    std::string one;
    for (size_t i = 0; i <= line; ++i) std::getline(text, one);
    return json::parse(one)["scores"];
  };
  EXPECT_EQ(second(r.out, 1), second(plain.out, 0));
}

TEST(CliHeads, AsAPageInOneFile) {
  const TempFolder folder;
  const std::string file = (folder.path() / "heads.html").string();
  const std::vector<std::string> command{"heads",  "-m", golden("fill-mask-bert"),
                                         "--html", file, "Anna came."};
  const Result first = run(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, "");
  const std::string page = read_all(file);
  EXPECT_NE(page.find("data-view=\"heads\""), std::string::npos);
  EXPECT_NE(page.find("\"model\":\"fill-mask-bert\""), std::string::npos);
  const Result again = run(command);
  EXPECT_NE(again.code, 0) << "a file that is there stays";
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
}

TEST(CliHeads, EvaluateSwitchesEachOffInTurn) {
  const TempFolder folder;
  const std::string file = (folder.path() / "rows.tsv").string();
  write_file(file, "sentence\tlabel\nA film.\t0\nAnna came.\t1\nNo.\t0\nThe film was good.\t1\n");
  const std::string model = golden("text-classification-bert");
  const std::vector<std::string> command{
      "evaluate", "classify",          "-m", model, "--data", file,
      "--metric", "calibration_error", "-q"};  // which differs from head to head
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return run(more);
  };
  const Result each = with({"--each-head", "--json"});
  ASSERT_EQ(each.code, 0) << each.err;
  const json all = json::parse(each.out);
  const size_t heads = all["heads"];
  ASSERT_EQ(all["without"].size(), all["layers"].get<size_t>() * heads);
  for (size_t i = 0; i < all["without"].size(); ++i) {
    const std::string which = std::to_string(i / heads + 1) + "-" + std::to_string(i % heads + 1);
    EXPECT_EQ(json::parse(with({"--without", which, "--json"}).out)["scores"]["calibration_error"],
              all["without"][i])
        << which;
    EXPECT_NE(all["without"][i], all["value"]) << which;
  }
  const Result shown = with({"--each-head"});
  EXPECT_NE(shown.out.find("with all heads, over 4 rows"), std::string::npos) << shown.out;
  for (const char* other : {"--without=1-1", "--bootstrap=10"})
    EXPECT_EQ(with({"--each-head", other}).code, 2) << other;
}

}  // namespace
}  // namespace bertie::test
