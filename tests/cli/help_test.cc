// What the program says about itself, and what it makes of wrong command lines.
#include <fmt/format.h>

#include "program.h"

using namespace bertie::test;

namespace {

const std::vector<std::string> kCommands = {
    "demo",     "tokenize", "embed",      "similar",  "fill-mask", "next-sentence", "classify",
    "pair",     "tag",      "answer",     "generate", "attend",    "explain",       "info",
    "pull",     "models",   "convert",    "vocab",    "prepare",   "pretrain",      "evaluate",
    "bench",    "help",     "completion", "score",    "senses",    "index",         "quantize",
    "finetune", "distill",  "serve",      "view",     "heads",     "prune"};

TEST(Help, AloneItGreetsWithThreeCommandsAndWhereHelpIs) {
  const Result r = run({});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  size_t tries = 0;
  for (const std::string& line : lines(r.out)) tries += line.starts_with("  bertie ");
  EXPECT_EQ(tries, 3u) << r.out;
  EXPECT_NE(r.out.find("bertie help"), std::string::npos);
}

TEST(Help, CommandsOfTheGreetingRunWithoutAModel) {
  size_t ran = 0;
  for (const std::string& line : lines(run({}).out)) {
    if (!line.starts_with("  bertie ") || line.find("bertie view") != line.npos)
      continue;  // that waits for a browser
    const std::string command = line.substr(9, line.find("   ") - 9);
    EXPECT_EQ(run_shell("$BERTIE " + command).code, 0) << command;
    ++ran;
  }
  EXPECT_EQ(ran, 2u);
}

TEST(Help, EveryCommandHasHelpThatShowsItsUsageAndFitsEightyColumns) {
  for (const std::string& command : kCommands) {
    const Result asked = run({"help", command}), flag = run({command, "--help"}),
                 letter = run({command, "-h"});
    EXPECT_EQ(asked.code, 0);
    EXPECT_EQ(asked.out, flag.out);
    EXPECT_EQ(asked.out, letter.out);
    EXPECT_NE(asked.out.find("\n  bertie " + command + " [options]"), std::string::npos) << asked.out;
    for (const std::string& line : lines(asked.out))
      EXPECT_TRUE(line.size() <= 80 || line.starts_with("  bertie ") || line.starts_with("  cat ")) << line;
  }
}

TEST(Help, ProgramHelpListsEveryCommand) {
  const Result r = run({"--help"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(run({"help"}).out, r.out);
  for (const std::string& command : kCommands)
    EXPECT_NE(r.out.find("\n  " + command + " "), std::string::npos) << command;
}

TEST(Help, VersionIsTheProjects) {
  const Result r = run({"--version"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "bertie " + lines(read_all(source_dir() / "VERSION"))[0] + "\n");
}

TEST(Help, TheCommittedDocumentationIsWhatTheProgramPrints) {
  EXPECT_EQ(run({"help", "--markdown"}).out, read_all(source_dir() / "docs/cli.md"))
      << "run: build/bertie help --markdown > docs/cli.md";
}

TEST(Help, TheManPageHasEveryCommandAndNoFaults) {
  const Result page = run({"help", "--man"});
  EXPECT_EQ(page.code, 0);
  for (std::string command : kCommands) {
    if (const size_t dash = command.find('-'); dash != command.npos)
      command = fmt::format("{}\\{}", command.substr(0, dash), command.substr(dash));
    const std::string heading = fmt::format(".SS \"bertie {}\"", command);
    EXPECT_NE(page.out.find(heading), std::string::npos) << command;
  }
  if (run_shell("command -v groff").code != 0) GTEST_SKIP() << "groff is not here";
  const Result lint = run_shell("$BERTIE help --man | groff -man -Tutf8 -ww -z");
  EXPECT_EQ(lint.code, 0);
  EXPECT_EQ(lint.err, "");
}

TEST(Completion, ScriptsParse) {
  size_t checked = 0;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Result script = run({"completion", shell});
    EXPECT_EQ(script.code, 0);
    for (const std::string& command : kCommands) EXPECT_NE(script.out.find(command), std::string::npos);
    if (run_shell("command -v " + shell).code != 0) continue;
    const Result parsed = run_shell("$BERTIE completion " + shell + " | " + shell + " -n");
    EXPECT_EQ(parsed.code, 0) << parsed.err;
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "none of the shells is here";
}

std::vector<std::string> completions(const std::string& typed) {
  // The words as bash would hand them over; the last one, maybe empty, is being completed.
  const Result r =
      run_shell("bash -c 'source <(\"$BERTIE\" completion bash); COMP_WORDS=(bertie " + typed +
                "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _bertie; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  return lines(r.out);
}

TEST(Completion, BashOffersCommandsOptionsAndChoices) {
  if (run_shell("command -v bash").code != 0) GTEST_SKIP() << "bash is not here";
  EXPECT_EQ(completions("to"), std::vector<std::string>{"tokenize"});
  EXPECT_EQ(completions("-m somewhere em"), std::vector<std::string>{"embed"});
  EXPECT_EQ(completions("embed --np"), std::vector<std::string>{"--npy"});
  EXPECT_EQ(completions("embed --vo"), std::vector<std::string>{""});
  EXPECT_EQ(completions("bench enc"), std::vector<std::string>{"encode"});
  EXPECT_EQ(completions("bench encode --model min"), std::vector<std::string>{"minilm"});
  EXPECT_EQ(completions("completion f"), std::vector<std::string>{"fish"});
  const std::string file = source_dir() / "tests/cli/program.h";
  for (const char* command : {"vocab", "prepare", "convert", "bench load"})
    EXPECT_EQ(completions(fmt::format("{} {}", command, file)), std::vector<std::string>{file}) << command;
}

struct Wrong {
  std::vector<std::string> arguments;
  std::string what, hint;  // parts of the message
};

TEST(Usage, WrongCommandLinesEndWithTwoAndSayWhatToTry) {
  const std::vector<Wrong> all = {
      {{"tokenise"}, "no command \"tokenise\"", "bertie tokenize"},
      {{"emebd"}, "no command", "bertie embed"},
      {{"zzzzzzzz"}, "no command", "bertie help"},
      {{"help", "atend"}, "no command", "bertie attend"},
      {{"help", "--", "-q"}, "no command \"-q\"", "bertie help"},
      {{"help", "--", "--version"}, "no command", "bertie help"},
      {{"embed", "--max-lenght", "3"}, "no option --max-lenght for bertie embed", "--max-length"},
      {{"embed", "--layer", "3"}, "no option --layer", "bertie help embed"},
      {{"--npy", "x", "embed"}, "no option --npy before a command", "bertie embed --npy FILE"},
      {{"embed", "-x"}, "no option -x", "--"},
      {{"embed", "-qx"}, "no option -qx", "--"},
      {{"embed", "--json=yes"}, "--json takes no value", "--json"},
      {{"embed", "--max-length"}, "--max-length needs its N", "--max-length N"},
      {{"embed", "--max-length", "ten"}, "whole number from 3", "--max-length 3"},
      {{"embed", "--max-length", "-1"}, "not \"-1\"", "--max-length 3"},
      {{"embed", "--max-length", "99999999999999999999999"}, "whole number", "--max-length"},
      {{"embed", "--threads", "1e3"}, "whole number from 0 to 1024", "--threads"},
      {{"bench", "encode", "--seconds", "nan"}, "number", "--seconds"},
      {{"attend", "You", "found"}, "too many", "\"You found\""},
      {{"demo", "hello"}, "takes no words", "bertie help demo"},
      {{"bench"}, "encode, generate, pretrain, attention, load, tokenize, gemm", "bertie bench encode"},
      {{"bench", "encod"}, "not \"encod\"", "bertie bench encode"},
      {{"completion", "tcsh"}, "bash, zsh, fish", "bertie completion"},
      {{"attend"}, "needs a text", "bertie attend"},
      {{"pair", "one", "two"}, "the one that bertie brings cannot judge pairs", "bertie finetune pair"},
      {{"answer", "who?", "me"}, "the one that bertie brings cannot answer", "bertie finetune answer"},
      {{"generate", "hello"}, "the one that bertie brings cannot continue texts", "bertie pull openai-community/gpt2"},
      {{"tokenize", "--stride", "4", "hello"}, "--max-length", "--max-length 128 --stride 4"},
      {{"tokenize", "--cased", "hello"}, "--cased", "--vocab vocab.txt --cased"},
      {{"tokenize", "--vocab", "tokenizer.json", "--cased", "hello"}, "tokenizer.json", "leave out --cased"},
      {{"tokenize", "--ids", "--json", "hello"}, "exclude", "--json"},
      {{"attend", "--json", "--layer", "1", "hello"}, "all layers and heads", "leave them out"},
      {{"info", "a", "--model", "b"}, "given twice", "bertie info MODEL"},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(testing::PrintToString(wrong.arguments));
    const Result r = run(wrong.arguments);
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.out, "");
    const std::vector<std::string> said = lines(r.err);
    ASSERT_EQ(said.size(), 2u) << r.err;
    EXPECT_TRUE(said[0].starts_with("bertie: ")) << r.err;
    EXPECT_NE(said[0].find(wrong.what), std::string::npos) << r.err;
    EXPECT_TRUE(said[1].starts_with("  try: ")) << r.err;
    EXPECT_NE(said[1].find(wrong.hint), std::string::npos) << r.err;
  }
}

TEST(Usage, WhatTheModelInTheBoxCanDoNeedsNoModel) {
  const Result praise = run({"classify", "A warm and funny film."}),
               names = run({"tag", "Maria lives in Berlin."});
  EXPECT_NE(praise.out.find("positive   9"), std::string::npos) << praise.out << praise.err;
  EXPECT_NE(names.out.find("[Maria PER] lives in [Berlin LOC]"), std::string::npos) << names.out << names.err;
}

TEST(Usage, OptionsMayStandBeforeTheCommandAndAfterItsWordsInEverySpelling) {
  const ModelFolder model;
  const Result expected = run({"tokenize", "--model", model.name(), "--ids", "You found me."});
  EXPECT_EQ(expected.out, "2 5 6 7 14 3\n");
  const std::vector<std::vector<std::string>> spellings = {
      {"--model", model.name(), "tokenize", "--ids", "You found me."},
      {"tokenize", "You found me.", "--ids", "--model=" + model.name()},
      {"tokenize", "You found me.", "--ids", "-m" + model.name()},
      {"-qm", model.name(), "tokenize", "--ids", "--", "You found me."},
  };
  for (const auto& arguments : spellings) EXPECT_EQ(run(arguments).out, expected.out);
}

TEST(Usage, AfterTwoDashesEverythingIsText) {
  const ModelFolder model;
  const Result words =
      run({"tokenize", "-m", model.name(), "--ids", "--no-special", "--", "--json", "-", "--"});
  EXPECT_EQ(lines(words.out).size(), 3u) << words.err;
  EXPECT_EQ(words.out, run({"tokenize", "-m", model.name(), "--ids", "--no-special", "-f", "-"},
                           {.input = "--json\n-\n--\n"})
                           .out);
}

TEST(Usage, HelpWinsOverWhatFollows) {
  const Result r = run({"embed", "--help", "--nonsense"});
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(r.out.starts_with("bertie embed: ")) << r.out;
  EXPECT_EQ(r.out, run({"help", "embed"}).out);
}

}  // namespace
