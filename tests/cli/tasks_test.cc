// The task commands on the small models of tests/golden/tasks: what they print, JSON, files, errors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bertie/text_model.h"
#include "program.h"

using namespace bertie::test;

namespace {

std::string golden(const std::string& name) { return (source_dir() / "tests/golden/tasks" / name).string(); }

std::vector<json> objects(const Result& r, int code = 0) {
  EXPECT_EQ(r.code, code) << r.err;
  std::vector<json> all;
  for (const std::string& line : lines(r.out)) all.push_back(json::parse(line));
  return all;
}

const std::string kHarbour = "Anna Lindqvist came to Gothenburg and opened a bakery near the old harbour.";

TEST(FillMask, JsonIsWhatTheLibrarySays) {
  const std::string text = "The [MASK] found a [MASK].";
  const auto all =
      objects(run({"fill-mask", "-m", golden("fill-mask-bert"), "--json", "--top", "3", text, "A [MASK]!"}));
  ASSERT_EQ(all.size(), 2u);
  const auto fills = bertie::load(golden("fill-mask-bert")).fill_mask(text, {.top = 3}).masks;
  EXPECT_EQ(all[0]["text"], text);
  ASSERT_EQ(all[0]["masks"].size(), 2u);
  for (size_t m = 0; m < 2; ++m)
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(all[0]["masks"][m][k]["id"], fills[m][k].id);
      EXPECT_EQ(all[0]["masks"][m][k]["token"], fills[m][k].token);
      EXPECT_EQ(all[0]["masks"][m][k]["sequence"], fills[m][k].sequence);
      EXPECT_EQ(all[0]["masks"][m][k]["score"].get<float>(), fills[m][k].score);
    }
  EXPECT_EQ(all[1]["index"], 1);
}

TEST(FillMask, TheTableShowsEveryMaskBestFirst) {
  const Result r = run({"fill-mask", "-m", golden("fill-mask-bert"), "The [MASK] found a [MASK]."});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(lines(r.out).size(), 14u) << r.out;  // twice: heading, columns, five
  EXPECT_TRUE(r.out.starts_with("mask 1 of 2\n")) << r.out;
  EXPECT_EQ(r.err, "");
}

TEST(Score, JsonIsWhatTheLibrarySays) {
  const std::string text = "The museum is closed.";
  const auto all = objects(run({"score", "-m", golden("fill-mask-bert"), "--json", text, ""}));
  ASSERT_EQ(all.size(), 2u);
  const bertie::TextScore score = bertie::load(golden("fill-mask-bert")).score(text);
  EXPECT_EQ(all[0]["text"], text);
  EXPECT_EQ(all[0]["log_probability"].get<double>(), score.log_probability());
  ASSERT_EQ(all[0]["scores"].size(), score.scores.size());
  for (size_t t = 0; t < score.scores.size(); ++t) {
    EXPECT_EQ(all[0]["scores"][t]["token"], score.scores[t].token);
    EXPECT_EQ(all[0]["scores"][t]["log_probability"].get<double>(), score.scores[t].log_probability);
    EXPECT_EQ(all[0]["scores"][t]["likeliest"], score.scores[t].likeliest);
  }
  EXPECT_TRUE(all[1]["perplexity"].is_null());
}

TEST(Score, ShowsEveryTokenOfOneTextAndRanksSeveral) {
  const Result one = run({"score", "-m", golden("fill-mask-bert"), "The museum is closed."});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("museum"), std::string::npos);
  EXPECT_NE(one.out.find("\nperplexity "), std::string::npos) << one.out;
  const std::vector<std::string> texts{"The bank", "Nobody knows why.", "A quiet winter followed"};
  const Result ranked = run({"score", "-m", golden("fill-mask-bert"), texts[0], texts[1], texts[2]});
  const std::vector<std::string> shown = lines(ranked.out);
  ASSERT_EQ(shown.size(), 6u) << ranked.out;  // heading, three, nothing, the sum
  for (size_t i = 2; i < 4; ++i) EXPECT_LE(std::stod(shown[i - 1]), std::stod(shown[i])) << ranked.out;
  const Result none = run({"score", "-m", golden("fill-mask-bert"), ""});
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("no text to read"), std::string::npos) << none.err;
  const Result file = run({"score", "-m", golden("text-generation-gpt2"), "-f", "-"},
                          {.input = texts[0] + "\n" + texts[1] + "\n"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_NE(file.out.find("of 2 texts\n"), std::string::npos) << file.out;
  EXPECT_LT(file.out.find("bank"), file.out.find("Nobody")) << file.out;
}

TEST(Senses, ShowsPlacesLayersAndAMap) {
  const std::string model = golden("sentence-similarity-bert");
  const Result r = run({"senses", "-m", model, "bank", "The bank is closed.", "A river bank, a bank"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("[bank]"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("in the plane"), std::string::npos) << r.out;
  const auto all = objects(run({"senses", "-m", model, "--json", "bank", "bank", "a bank"}));
  EXPECT_EQ(all.at(0)["places"].size(), 2u);
  const Result two = run({"senses", "-m", model, "bank", "bank", "a bank"});
  EXPECT_EQ(two.out.find("in the plane"), std::string::npos) << "two are no picture";
  EXPECT_NE(run({"senses", "-m", model, "bank", "a bank"}).err.find("one place"), std::string::npos);
  EXPECT_NE(run({"senses", "-m", model, "bank", ""}).err.find("no text"), std::string::npos);
  const std::string lines = "a bank\nno such word\nthe bank\n";
  const Result file = run({"senses", "-m", model, "bank", "-f", "-"}, {.input = lines});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_NE(file.err.find("1 of 3 texts do not have the word"), std::string::npos) << file.err;
  EXPECT_NE(run({"senses", "-m", model, "--strict", "bank", "-f", "-"}, {.input = lines}).err.find("text 2"),
            std::string::npos);
  const Result unnamed = run({"senses", "-m", model, "--json", "bank"}, {.input = lines});
  EXPECT_EQ(unnamed.code, 0) << "standard input is no more typed than a file: " << unnamed.err;
  const json places = objects(unnamed).at(0)["places"];
  EXPECT_EQ(places.at(0)["text"], 0);
  EXPECT_EQ(places.at(1)["text"], 2) << "of all lines";
  // Of a long line what the model reads around the word is taken; places are those in the line.
  std::string far;
  for (int i = 0; i < 1000; ++i) far += "and ";
  far += "a bank";
  for (int i = 0; i < 1000; ++i) far += " and";
  const Result over =
      run({"senses", "-m", model, "--json", "bank", "-f", "-"}, {.input = lines + far + "\n"});
  EXPECT_EQ(over.code, 0) << over.err;
  const json all_places = objects(over).at(0)["places"];
  ASSERT_EQ(all_places.size(), 3u);
  EXPECT_EQ(all_places.at(2)["start"], 4002);
  EXPECT_EQ(all_places.at(2)["word"], "bank");
  std::string many;
  for (int i = 0; i < 130; ++i) many += "bank bank bank bank\n";
  const Result most = run({"senses", "-m", model, "bank", "-f", "-"}, {.input = many});
  EXPECT_EQ(most.code, 0) << most.err;
  EXPECT_NE(most.err.find("the first 500 places"), std::string::npos) << most.err;
  const Result alike = run({"senses", "-m", model, "bank", "a bank", "a bank", "a bank"});
  EXPECT_NE(alike.out.find("one group"), std::string::npos) << "the same text three times: " << alike.out;
  EXPECT_NE(run({"senses", "-m", model}).err.find("needs a word"), std::string::npos);
  EXPECT_NE(run({"senses", "-m", model, "--layer", "9", "bank", "bank bank"}).err.find("no layer 9"),
            std::string::npos);
}

TEST(Score, RanksTextsByPerplexityAndThoseWithoutWordsLast) {
  const Result r =
      run({"score", "b d", "", "He eats an apple.", "", "The man bit the dog.", "", "I am here."});
  EXPECT_EQ(r.code, 0) << r.err;
  std::vector<double> ranks;
  for (const std::string& line : lines(r.out)) {
    if (line.empty()) break;
    if (line.find("perplexity") != line.npos) continue;
    ranks.push_back(line.starts_with("         -") ? INFINITY : std::stod(line));
  }
  ASSERT_EQ(ranks.size(), 7u) << r.out;
  EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end())) << r.out;
  EXPECT_TRUE(std::isinf(ranks[4]) && !std::isinf(ranks[3])) << r.out;
}

TEST(Score, MarksTheWordThatSurprises) {
  const Result r = run({"score", "He was born in London in banana."});
  EXPECT_NE(r.out.find("*banana*"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("*born*"), std::string::npos) << r.out;
}

TEST(Tag, TheModelInTheBoxSaysTheSameByAnyName) {
  const std::string text = "Barack Obama spoke to the European Parliament in Brussels.";
  const Result unnamed = run({"tag", text}), named = run({"tag", "-m", "bertie-mini/entities", text});
  EXPECT_NE(unnamed.out.find("[Brussels LOC]"), std::string::npos) << unnamed.out;
  EXPECT_EQ(named.out, unnamed.out) << "words are whole: it learned labels of first pieces";
  EXPECT_NE(run({"tag", "-m", "bertie-mini/entities", "--group", "simple", text}).out, unnamed.out);
}

TEST(Models, OfTheWrongKindSayHowToGetTheRightOne) {
  const Result classify = run({"classify", "-m", "bertie-mini", "good"}),
               answer = run({"answer", "Who?", "--context", "-"});
  EXPECT_NE(classify.err.find("bertie finetune classify"), std::string::npos) << classify.err;
  EXPECT_NE(classify.err.find("without --model bertie takes its own"), std::string::npos) << classify.err;
  EXPECT_NE(answer.err.find("a question answerer can: bertie pull"), std::string::npos) << answer.err;
}

TEST(FillMask, GoesOnAfterATextWithoutAMask) {
  std::string lines;
  for (int i = 0; i < 600; ++i) lines += i == 513 ? "nothing here\n" : "a [MASK].\n";
  const Result r =
      run({"fill-mask", "-m", golden("fill-mask-bert"), "--json", "--top", "1"}, {.input = lines});
  const auto all = objects(r, 1);
  ASSERT_EQ(all.size(), 599u);
  EXPECT_EQ(all[513]["index"], 514);
  EXPECT_NE(r.err.find("standard input:514: the text has no mask\n"), std::string::npos) << r.err;
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "a ";
  const Result strict = run(
      {"fill-mask", "--strict", "-m", golden("fill-mask-bert"), "--json", "a [MASK]", long_text + "[MASK]"});
  EXPECT_EQ(objects(strict, 1).size(), 1u);
  EXPECT_NE(strict.err.find("text 2: the text has no [MASK] in the part that the model can read"),
            std::string::npos)
      << strict.err;
}

TEST(FillMask, SaysWhereThereIsNoMaskAndWhatATargetBecame) {
  const Result none = run({"fill-mask", "-m", golden("fill-mask-bert"), "no mask"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.err, "bertie: the text has no mask\n  try: write [MASK] where a word is missing\n");
  const Result target =
      run({"fill-mask", "-m", golden("fill-mask-bert"), "--target", "harbourmaster", "a [MASK]"});
  EXPECT_EQ(target.code, 0);
  EXPECT_NE(target.err.find("\"harbourmaster\" is "), std::string::npos) << target.err;
}

TEST(NextSentence, TakesWordsTabsAndJson) {
  const TemporaryFolder folder;
  write_all(folder / "pairs",
            "It rained.\tWe got wet.\n{\"text_pair\": \"We got wet.\", \"text\": \"It rained.\"}\n");
  const auto all =
      objects(run({"next-sentence", "-m", golden("next-sentence-bert"), "--json", "-f", folder / "pairs"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["is_next"], all[1]["is_next"]);
  EXPECT_EQ(all[1]["b"], "We got wet.");
  const auto words = objects(
      run({"next-sentence", "-m", golden("next-sentence-bert"), "--json", "It rained.", "We got wet."}));
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0]["is_next"], all[0]["is_next"]);
  const Result human =
      run({"next-sentence", "-m", golden("next-sentence-bert"), "It rained.", "We got wet."});
  EXPECT_NE(human.out.find("follow"), std::string::npos) << human.out;
}

TEST(Pairs, ALineThatIsNoPairIsNamed) {
  const Result r = run({"pair", "-m", golden("text-classification-bert")}, {.input = "a\tb\nonly one\n"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("standard input:2: not two texts: \"only one\""), std::string::npos) << r.err;
  const Result json =
      run({"pair", "-m", golden("text-classification-bert")}, {.input = "{\"text\": \"a\"}\n"});
  EXPECT_EQ(json.code, 1);
  EXPECT_NE(json.err.find("text_pair"), std::string::npos) << json.err;
  EXPECT_EQ(run({"pair", "-m", golden("text-classification-bert"), "one"}).code, 2);
}

TEST(Classify, OneTextShowsAllLabelsManyTheBest) {
  const Result one = run({"classify", "-m", golden("text-classification-bert"), kHarbour});
  EXPECT_EQ(lines(one.out).size(), 4u) << one.out;
  const Result many =
      run({"classify", "-m", golden("text-classification-bert")}, {.input = kHarbour + "\n\nagain\n"});
  EXPECT_EQ(lines(many.out).size(), 3u) << many.out;
  const auto all = objects(run({"classify", "-m", golden("text-classification-bert"), "--json"},
                               {.input = kHarbour + "\n\nagain\n"}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["labels"].size(), 3u);
  EXPECT_TRUE(lines(many.out)[0].starts_with(all[0]["labels"][0]["label"].get<std::string>()));
  EXPECT_EQ(objects(run({"classify", "-m", golden("text-classification-bert"), "--json", "--top", "1",
                         "a"}))[0]["labels"]
                .size(),
            1u);
}

TEST(Classify, AppliesWhatItIsTold) {
  const auto score = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"classify", "-m", golden("text-classification-bert"), "--json",
                                       kHarbour};
    arguments.insert(arguments.end(), more.begin(), more.end());
    float sum = 0;
    const std::vector<json> all = objects(run(arguments));
    for (const json& label : all[0]["labels"]) sum += label["score"].get<float>();
    return sum;
  };
  EXPECT_NEAR(score({}), 1, 1e-5);
  EXPECT_EQ(score({}), score({"--apply", "softmax"}));
  EXPECT_NE(score({}), score({"--apply", "sigmoid"}));
  EXPECT_NE(score({"--apply", "nothing"}), score({"--apply", "sigmoid"}));
  const Result typo = run({"classify", "-m", golden("text-classification-bert"), "--apply", "sofmax", "a"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("try: --apply softmax"), std::string::npos) << typo.err;
}

TEST(Classify, WhatIsCutIsSaidOnceAtTheEnd) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "harbour ";
  const Result r = run({"classify", "-m", golden("text-classification-bert"), "short", text, text});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(lines(r.err)[0], "bertie: 2 of 3 texts had more than 128 tokens and were cut");
  EXPECT_EQ(run({"-q", "classify", "-m", golden("text-classification-bert"), text}).err, "");
}

TEST(Tag, MarksEntitiesInTheTextAndListsThem) {
  const auto all = objects(run({"tag", "-m", golden("token-classification-bert"), "--json", kHarbour}));
  ASSERT_EQ(all.size(), 1u);
  ASSERT_FALSE(all[0]["entities"].empty());
  const Result r = run({"tag", "-m", golden("token-classification-bert"), kHarbour});
  for (const json& e : all[0]["entities"]) {
    EXPECT_EQ(kHarbour.substr(e["start"], e["end"].get<size_t>() - e["start"].get<size_t>()), e["text"]);
    const std::string mark =
        fmt::format("[{} {}]", e["text"].get<std::string>(), e["label"].get<std::string>());
    EXPECT_NE(r.out.find(mark), std::string::npos) << r.out;
  }
  EXPECT_EQ(lines(r.out).size(), 2 + all[0]["entities"].size()) << r.out;
  EXPECT_NE(run({"tag", "-m", golden("token-classification-bert"), kHarbour}, {.terminal = true})
                .out.find("\x1b[1;3"),
            std::string::npos);
}

TEST(Tag, OptionsReachTheLibrary) {
  const auto entities = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"tag", "-m", golden("token-classification-bert"), "--json", kHarbour};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return objects(run(arguments))[0]["entities"].size();
  };
  EXPECT_GT(entities({"--group", "none", "--keep-outside"}), entities({"--group", "none"}));
  EXPECT_GT(entities({"--group", "none"}), entities({"--group", "first"}));
  EXPECT_EQ(entities({"--group", "none", "--keep-outside", "--max-length", "8", "--stride", "2"}),
            entities({"--group", "none", "--keep-outside"}));
  EXPECT_EQ(
      run({"tag", "-m", golden("token-classification-bert"), "--max-length", "8", "--stride", "6", kHarbour})
          .code,
      2);
}

TEST(Answer, FromWordsLinesAndAboutAFile) {
  const TemporaryFolder folder;
  write_all(folder / "context.txt", kHarbour + "\n" + kHarbour + "\n");
  write_all(folder / "questions", "Who came?\t" + kHarbour + "\n" +
                                      json{{"question", "Who came?"}, {"context", kHarbour}}.dump() + "\n");
  const std::string model = golden("question-answering-bert");
  const auto words = objects(run({"answer", "-m", model, "--json", "Who came?", kHarbour}));
  ASSERT_EQ(words.size(), 1u);
  const json answer = words[0]["answers"][0];
  EXPECT_EQ(kHarbour.substr(answer["start"], answer["end"].get<size_t>() - answer["start"].get<size_t>()),
            answer["answer"]);
  const auto from_file = objects(run({"answer", "-m", model, "--json", "-f", folder / "questions"}));
  ASSERT_EQ(from_file.size(), 2u);
  for (const json& object : from_file) EXPECT_EQ(object["answers"][0], answer);
  EXPECT_EQ(objects(run({"answer", "-m", model, "--json", "-c", folder / "context.txt", "Who came?", "Where?",
                         "When?"}))
                .size(),
            3u);
  EXPECT_EQ(objects(run({"answer", "-m", model, "--json", "--top", "4", "Who came?", kHarbour}))[0]["answers"]
                .size(),
            4u);
  const Result human = run({"answer", "-m", model, "Who came?", kHarbour});
  EXPECT_EQ(lines(human.out)[0], "Who came?");
  EXPECT_NE(human.out.find("«" + answer["answer"].get<std::string>() + "»"), std::string::npos) << human.out;
  EXPECT_EQ(run({"answer", "-m", model, "Who came?"}).code, 2);
}

TEST(Answer, MaySayThatThereIsNone) {
  const Result r =
      run({"answer", "-m", golden("question-answering-bert"), "--may-be-empty", "--json", "Who?", ""});
  EXPECT_EQ(objects(r)[0]["answers"][0]["answer"], "");
  EXPECT_NE(run({"answer", "-m", golden("question-answering-bert"), "--may-be-empty", "Who?", ""})
                .out.find("no answer in this text"),
            std::string::npos);
}

TEST(Generate, ShowsTheTextAndGivesJson) {
  const std::string model = golden("text-generation-gpt2");
  const auto all = objects(run({"generate", "-m", model, "--json", "-n", "6", "The bank", "It"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["text"], "The bank");
  EXPECT_EQ(all[0]["ids"].size(), 6u);
  EXPECT_EQ(all[0]["finish_reason"], "max_new_tokens");
  EXPECT_EQ(all[1]["finish_reason"], "end_of_text");
  const Result human = run({"generate", "-m", model, "-n", "6", "The bank"});
  EXPECT_EQ(human.out, "The bank" + all[0]["generated"].get<std::string>() + "\n");
}

TEST(Generate, ASeedDrawsTheSameAgain) {
  const std::string model = golden("text-generation-gpt2");
  const auto drawn = [&](const std::string& seed) {
    return run({"generate", "-m", model, "--json", "--temperature", "2", "--seed", seed, "The"}).out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
  std::set<bool> ends;  // some seeds draw an end of text before the model is full, and some do not
  for (int seed = 1; seed <= 20 && ends.size() < 2; ++seed) {
    const Result full = run({"generate", "-m", model, "--json", "-n", "500", "--temperature", "2", "--seed",
                             std::to_string(seed), "The bank"});
    EXPECT_EQ(full.code, 0);
    const bool at_the_end = objects(full)[0]["finish_reason"] == "model_length";
    EXPECT_EQ(full.err.find("stopped at the 72 tokens") != std::string::npos, at_the_end) << full.err;
    ends.insert(at_the_end);
  }
  EXPECT_EQ(ends.size(), 2u);
  const Result wrong = run({"generate", "-m", model, "--top-p", "2", "a"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.out, "") << "nothing is printed before the options are known to be right";
}

TEST(Answer, ReadsTheContextAsItIs) {
  const std::string model = golden("question-answering-bert");
  const TemporaryFolder folder;
  const std::string file = folder / "context";
  write_all(file, "abc\r\nxyz\r\nAnna\r\n");
  const auto all = objects(run({"answer", "-m", model, "--json", "--top", "5", "-c", file, "who"}));
  ASSERT_EQ(all[0]["answers"].size(), 5u);
  for (const json& a : all[0]["answers"]) {
    const std::string text = "abc\r\nxyz\r\nAnna\r\n";
    EXPECT_EQ(text.substr(a["start"], a["end"].get<size_t>() - a["start"].get<size_t>()), a["answer"]);
  }
  EXPECT_EQ(run({"answer", "-m", model, "-c", "-"}, {.input = "a text"}).code, 2)
      << "both from standard input";
  const Result columns = run({"answer", "-m", model}, {.input = "a\tb\tc\n"});
  EXPECT_NE(columns.err.find("more than two columns"), std::string::npos) << columns.err;
}

TEST(Similar, RanksAndComparesAll) {
  const std::string model = golden("sentence-similarity-bert");
  const auto ranked =
      objects(run({"similar", "-m", model, "--json", "--query", "the old harbour", "--top", "2"},
                  {.input = "A bakery.\nthe old harbour\nIt was raining.\n"}));
  ASSERT_EQ(ranked.size(), 2u);
  EXPECT_EQ(ranked[0]["index"], 1);
  EXPECT_NEAR(ranked[0]["score"].get<float>(), 1, 1e-6);
  EXPECT_GE(ranked[0]["score"], ranked[1]["score"]);
  const auto matrix = objects(run({"similar", "-m", model, "--json", "A bakery.", "the old harbour"}));
  ASSERT_EQ(matrix.size(), 2u);
  EXPECT_EQ(matrix[0]["scores"][1], matrix[1]["scores"][0]);
  const Result human =
      run({"similar", "-m", model, "--query", "the old harbour", "A bakery.", "the old harbour"});
  EXPECT_NE(lines(human.out)[1].find("the old harbour"), std::string::npos) << human.out;
  EXPECT_EQ(run({"similar", "-m", model, "A bakery.", "A harbour."}).code, 0);
  std::string many;
  for (int i = 0; i < 101; ++i) many += "text\n";
  EXPECT_EQ(run({"similar", "-m", model}, {.input = many}).code, 2);
  EXPECT_EQ(objects(run({"similar", "-m", model, "--json", "--query", "a"}, {.input = many})).size(), 10u);
}

TEST(Tasks, AWrongCheckpointSaysWhatItCanDo) {
  const Result r = run({"classify", "-m", golden("token-classification-bert"), "a"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot classify texts"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("this one can tag tokens"), std::string::npos) << r.err;
}

TEST(Tasks, AnswerLineByLineInAPipeAndInBoundedBlocks) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "text " + std::to_string(i) + "\n";
  const auto all =
      objects(run({"classify", "-m", golden("text-classification-bert"), "--json"}, {.input = many}));
  ASSERT_EQ(all.size(), 3000u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["text"], "text " + std::to_string(i));
  const Result told =
      run({"-v", "tag", "-m", golden("token-classification-bert"), "--json"}, {.input = many});
  EXPECT_NE(told.err.find("3,000 texts in "), std::string::npos) << told.err;
}

TEST(Tasks, ThePageShowsWhatTheProgramPrints) {
  std::vector<std::string> page = lines(read_all(source_dir() / "docs/tasks.md"));
  size_t commands = 0;
  for (size_t i = 0; i < page.size(); ++i) {
    const std::string prompt = "    $ bertie ";
    if (!page[i].starts_with(prompt)) continue;
    const std::string command = page[i].substr(prompt.size());
    std::string expected;
    while (i + 1 < page.size() && page[i + 1].starts_with("    ")) expected += page[++i].substr(4) + "\n";
    EXPECT_EQ(run_shell("cd " + source_dir().string() + " && COLUMNS=100 $BERTIE " + command + " 2>&1").out,
              expected)
        << command;
    ++commands;
  }
  EXPECT_GE(commands, 9u);
}

// One question about a whole book is one block: without a word in between that is minutes of silence.
TEST(Answer, SaysHowFarItIsWithinOneLongContext) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ten seconds of computing are minutes here";
#endif
  const TemporaryFolder folder;
  std::string book;
  for (int i = 0; i < 50'000; ++i) book += kHarbour + " ";
  write_all(folder / "book.txt", book);
  const Result r = run({"answer", "-v", "-t", "1", "-m", golden("question-answering-bert"), "--json",
                        "--context", folder / "book.txt", "Who came?"});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("0 of 1 questions after "), std::string::npos) << r.err;
}

}  // namespace
