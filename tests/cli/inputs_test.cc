// Many inputs: bad ones, slow ones, and bytes that are not UTF-8. Models with something odd about them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "program.h"

using namespace bertie::test;

namespace {

std::string golden(const std::string& name) { return (source_dir() / "tests/golden/tasks" / name).string(); }

std::vector<json> objects(const Result& r) {
  std::vector<json> all;
  for (const std::string& line : lines(r.out)) all.push_back(json::parse(line));
  return all;
}

// Rewrites model.safetensors: `change` gets its header and its data.
void change_weights(const fs::path& file,
                    const std::function<void(json& header, std::string& data)>& change) {
  const std::string bytes = read_all(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  json header = json::parse(bytes.substr(8, length));
  std::string data = bytes.substr(8 + length);
  change(header, data);
  const std::string text = header.dump();
  length = text.size();
  write_all(file, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
}

TEST(Inputs, ThatAreBadAreReportedAndTheOthersGoOn) {
  const TemporaryFolder folder;
  write_all(folder / "pairs.txt", "a\tb\nonly one\n{\"text\": \"a\"}\na\tb\nx\ty\tz\n");
  const std::string file = folder / "pairs.txt";
  for (const auto& [command, model] : {std::pair("pair", "text-classification-bert"),
                                       {"next-sentence", "next-sentence-bert"},
                                       {"answer", "question-answering-bert"}}) {
    const Result r = run({command, "-m", golden(model), "--json", "-f", file});
    EXPECT_EQ(r.code, 1);
    const std::vector<json> all = objects(r);
    ASSERT_EQ(all.size(), 2u) << r.err;
    EXPECT_EQ(all[0]["index"], 0);
    EXPECT_EQ(all[1]["index"], 3);
    for (const char* said : {":2: not two texts: \"only one\"\n", ":3: ", ":5: more than two columns: "})
      EXPECT_NE(r.err.find(file + said), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("bertie: 3 of 5 "), std::string::npos) << r.err;
  }
}

TEST(Inputs, ThatAreBadEndTheWorkIfItIsStrict) {
  const Result r = run({"pair", "--strict", "-m", golden("text-classification-bert"), "--json"},
                       {.input = "a\tb\nonly one\na\tb\n"});
  EXPECT_EQ(r.code, 1);
  EXPECT_LE(lines(r.out).size(), 1u);
  EXPECT_NE(r.err.find("bertie: standard input:2: not two texts"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("could not be used"), std::string::npos) << r.err;
}

TEST(Inputs, AreAnsweredLineByLineWhereThePipeStaysOpen) {
  const ModelFolder model;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"tokenize", "--ids", "-m", model.name()},
        {"tokenize", "--json", "-m", model.name()},
        {"embed", "-m", model.name()},
        {"classify", "-m", golden("text-classification-bert")},
        {"tag", "--json", "-m", golden("token-classification-bert")}}) {
    const TemporaryFolder folder;
    const std::string fifo = folder / "texts", out = folder / "out";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    int writer = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"-f", fifo});
    const Result r = run(arguments, {.output_to = out, .meanwhile = [&](pid_t) {
                                       for (size_t line = 1; line <= 3; ++line) {
                                         // The start of the next line is there already, but not its end.
                                         ASSERT_EQ(write(writer, "found\nyo", 8), 8);
                                         for (int i = 0; i < 600 && lines(read_all(out)).size() < line; ++i)
                                           std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                         EXPECT_EQ(lines(read_all(out)).size(), line) << command[0];
                                       }
                                       const int last = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
                                       close(std::exchange(writer, -1));
                                       close(last);
                                     }});
    if (writer >= 0) close(writer);
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

TEST(Inputs, ThatAreNotUtf8AreCountedAndTheFirstIsNamed) {
  const ModelFolder model;
  const TemporaryFolder folder;
  write_all(folder / "latin1.txt", "you\nme caf\xe9 bank\nriver\nna\xefve\n");
  const std::string file = folder / "latin1.txt";
  for (const char* command : {"embed", "tokenize"}) {
    const Result r = run({command, "--json", "-m", model.name(), "-f", file});
    EXPECT_EQ(r.code, 0) << r.err;
    ASSERT_EQ(lines(r.out).size(), 4u);
    EXPECT_EQ(json::parse(lines(r.out)[1])["text"], "me caf\uFFFD bank");
    EXPECT_NE(r.err.find("2 of 4 texts are not valid UTF-8, the first is " + file + ":2"), std::string::npos)
        << r.err;
    EXPECT_EQ(run({command, "-q", "--json", "-m", model.name(), "-f", file}).err, "");
    const Result strict = run({command, "--strict", "--json", "-m", model.name(), "-f", file});
    EXPECT_EQ(strict.code, 1);
    EXPECT_NE(strict.err.find(file + ":2: not valid UTF-8"), std::string::npos) << strict.err;
  }
}

TEST(Inputs, ThatComeBeforeABadOneAreNotLostIfItIsStrict) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a\tb\n";
  const Result r = run({"pair", "--strict", "-m", golden("text-classification-bert"), "--json"},
                       {.input = text + "only one\n"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(lines(r.out).size(), 200u);
}

TEST(Inputs, ThatAreAllBadInABlockDoNotEndTheWork) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "who came to the old harbour yesterday and why\tAnna came.\n";
  const std::vector<std::string> command{"answer", "--max-length", "12",
                                         "--json", "-m",           golden("question-answering-bert")};
  const Result r = run(command, {.input = text + "who?\tAnna came.\n"});
  EXPECT_EQ(r.code, 1);
  ASSERT_EQ(lines(r.out).size(), 1u) << r.err;
  EXPECT_EQ(json::parse(r.out)["index"], 300);
  EXPECT_NE(r.err.find("standard input:300: "), std::string::npos) << r.err;
  std::vector<std::string> strict = command;
  strict.push_back("--strict");
  EXPECT_NE(run(strict, {.input = text}).err.find("bertie: standard input:1: "), std::string::npos);
  for (int i = 0; i < 3; ++i) text += text;
  const Result all_bad = run(command, {.input = text});
  EXPECT_NE(all_bad.err.find("none of the first 1000 questions could be used"), std::string::npos);
  EXPECT_EQ(lines(all_bad.err).size(), 1003u) << "each, the first one's hint, the end and its hint";
}

TEST(Inputs, ThatFailLeaveTheOthersTheirPlaces) {
  const ModelFolder model;
  change_weights(model / "model.safetensors", [&](json& header, std::string& data) {
    const json& words = header["bert.embeddings.word_embeddings.weight"];
    const float bad = std::numeric_limits<float>::quiet_NaN();  // of "river"
    std::memcpy(data.data() + words["data_offsets"][0].get<size_t>() + 9 * 64 * 4, &bad, 4);
  });
  const How how{.input = "you\nriver\nme\nbank\n"};
  const std::string npy = model / "o.npy";
  const Result r = run({"embed", "-m", model.name(), "--npy", npy}, how);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("1 of 4 texts could not be used; their rows are NaN"), std::string::npos) << r.err;
  const Npy rows = read_npy(npy);
  ASSERT_EQ(rows.shape, (std::vector<size_t>{4, 64}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(rows.values[i * 64]), i == 1) << i;
  const std::vector<json> similar = objects(run({"similar", "--json", "-m", model.name()}, how));
  ASSERT_EQ(similar.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(similar[i]["index"], i + (i > 0));
}

TEST(Inputs, FromTheCommandLineDoNotWaitForAPipe) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "texts", out = folder / "out";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int writer = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  const Result r =
      run({"classify", "--json", "-m", golden("text-classification-bert"), "A fine film.", "-f", fifo},
          {.output_to = out, .meanwhile = [&](pid_t) {
             for (int i = 0; i < 600 && lines(read_all(out)).empty(); ++i)
               std::this_thread::sleep_for(std::chrono::milliseconds(20));
             EXPECT_EQ(lines(read_all(out)).size(), 1u);
             const int last = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
             close(writer), close(last);
           }});
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST(Inputs, ThatAreNotUtf8AreSaidWhereverTheyAreGiven) {
  const ModelFolder model;
  const std::string bad = "caf\xe9";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"similar", "--query", bad, "you"},
                                                  {"tokenize", "--pair", bad, "you"},
                                                  {"attend", bad},
                                                  {"attend", "you", "--pair", bad},
                                                  {"explain", bad}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"-m", model.name()});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("is not valid UTF-8"), std::string::npos) << command[0] << r.err;
    arguments.push_back("--strict");
    EXPECT_EQ(run(arguments).code, 1) << command[0];
  }
}

TEST(Inputs, ThatAreNotUtf8InAContextAreSaidToo) {
  const TemporaryFolder folder;
  write_all(folder / "context", "Anna came to the caf\xe9.");
  const std::string model = golden("question-answering-bert"), context = folder / "context";
  const Result r = run({"answer", "--json", "-m", model, "-c", context, "Who?"});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("the context is not valid UTF-8"), std::string::npos) << r.err;
  EXPECT_EQ(run({"answer", "--strict", "-m", model, "-c", context, "Who?"}).code, 1);
}

TEST(Inputs, HaveNoByteOrderMark) {
  const ModelFolder model;
  const std::string mark = "\xEF\xBB\xBF";
  const Result plain = run({"tokenize", "--json", "-m", model.name()}, {.input = "you found\nme\n"});
  const Result marked = run({"tokenize", "--json", "-m", model.name()}, {.input = mark + "you found\nme\n"});
  EXPECT_EQ(marked.out, plain.out);
  EXPECT_EQ(marked.err, "");
  const TemporaryFolder folder;
  write_all(folder / "pairs", mark + "{\"text\": \"a\", \"text_pair\": \"b\"}\n");
  EXPECT_EQ(run({"pair", "-m", golden("text-classification-bert"), "-f", folder / "pairs"}).code, 0);
}

TEST(Inputs, WithAZeroByteKeepWhatComesAfterIt) {
  const ModelFolder model;
  const Result r =
      run({"tokenize", "--ids", "-m", model.name()}, {.input = std::string("you \0 bank\nme\n", 14)});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "2 5 10 3\n2 7 3\n");
}

TEST(Inputs, SayHowFarTheyAreWithoutATerminalToo) {
  const ModelFolder model;
  const auto slowly = [&](std::vector<std::string> arguments) {
    const TemporaryFolder folder;
    const std::string fifo = folder / "texts";
    EXPECT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    arguments.insert(arguments.end(), {"-m", model.name(), "-f", fifo});
    return run(arguments, {.meanwhile = [&](pid_t) {
                 const int writer = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
                 for (int i = 0; i < 23; ++i) {
                   EXPECT_EQ(write(writer, "you\n", 4), 4);
                   std::this_thread::sleep_for(std::chrono::milliseconds(500));
                 }
                 close(writer);
               }});
  };
  Result quiet;
  std::thread other([&] { quiet = slowly({"embed", "-q"}); });
  const Result r = slowly({"embed"});
  other.join();
  EXPECT_NE(r.err.find(" texts, 2/s\n"), std::string::npos) << r.err;
  EXPECT_LE(lines(r.err).size(), 2u) << r.err;
  EXPECT_EQ(quiet.err, "");
}

TEST(Threads, ZeroAreOneForEveryCore) {
  const ModelFolder model;
  const Result r = run({"embed", "-t", "0", "-m", model.name(), "you"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, run({"embed", "-t", "1", "-m", model.name(), "you"}).out);
  EXPECT_NE(run({"help", "embed"}).out.find("0: one for every core"), std::string::npos);
}

TEST(FillMask, ShowsNoSpecialTokensWhereThereAreSeveralMasks) {
  const Result r = run({"fill-mask", "-m", golden("fill-mask-bert"), "The [MASK] found a [MASK]."});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out.find("[CLS]"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("[SEP]"), std::string::npos) << r.out;
}

TEST(Models, WhoseNumbersAreNotFiniteAreErrors) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const ModelFolder model;
    change_weights(model / "model.safetensors", [&](json&, std::string& data) {
      for (size_t i = 0; i + 4 <= data.size(); i += 4) std::memcpy(data.data() + i, &bad, 4);
    });
    for (const std::vector<std::string>& command : {std::vector<std::string>{"embed", "you"},
                                                    {"embed", "you", "me", "bank"},
                                                    {"similar", "you", "me"},
                                                    {"attend", "you"},
                                                    {"explain", "you"}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"-m", model.name()});
      const Result r = run(arguments);
      EXPECT_EQ(r.code, 1) << command[0] << r.out;
      EXPECT_NE(r.err.find("NaN"), std::string::npos) << command[0] << r.err;
    }
  }
}

TEST(Models, WithATensorTooManyAreWarnedOfAndRefusedIfItIsStrict) {
  const ModelFolder model;
  change_weights(model / "model.safetensors", [&](json& header, std::string& data) {
    header["extra.tensor"] = {
        {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data.size(), data.size() + 4}}};
    data += std::string(4, '\0');
  });
  for (const std::vector<std::string>& command : {std::vector<std::string>{"embed", "you"},
                                                  {"similar", "you", "me"},
                                                  {"attend", "you"},
                                                  {"explain", "you"},
                                                  {"info"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"-m", model.name()});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << command[0] << r.err;
    EXPECT_NE(r.err.find("extra.tensor"), std::string::npos) << command[0] << r.err;
    arguments.push_back("--strict");
    const Result strict = run(arguments);
    EXPECT_EQ(strict.code, 1) << command[0];
    EXPECT_EQ(strict.out, "");
    EXPECT_NE(strict.err.find("extra.tensor"), std::string::npos) << command[0] << strict.err;
  }
}

TEST(Json, IsOneObjectALineWithTheInputsIndexForOneInputAndForMany) {
  const ModelFolder model;
  const std::string classifier = golden("text-classification-bert");
  const std::vector<std::vector<std::string>> commands = {
      {"tokenize", "-m", model.name()},
      {"embed", "-m", model.name()},
      {"similar", "-m", model.name()},
      {"classify", "-m", classifier},
      {"tag", "-m", golden("token-classification-bert")},
      {"generate", "-n", "2", "-m", golden("text-generation-gpt2")}};
  for (const auto& command : commands)
    for (size_t count : {1u, 3u}) {
      std::vector<std::string> arguments = command;
      arguments.push_back("--json");
      for (size_t i = 0; i < count; ++i) arguments.push_back("you");
      const Result r = run(arguments);
      EXPECT_EQ(r.code, 0) << r.err;
      const std::vector<json> all = objects(r);
      ASSERT_EQ(all.size(), count) << command[0];
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(all[i]["index"], i) << command[0];
        EXPECT_EQ(all[i]["text"], "you") << command[0];
      }
    }
  for (const std::vector<std::string>& single :
       {std::vector<std::string>{"attend", "-m", model.name(), "you"},
        {"explain", "-m", model.name(), "you"}}) {
    std::vector<std::string> arguments = single;
    arguments.push_back("--json");
    const std::vector<json> all = objects(run(arguments));
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0]["index"], 0);
    EXPECT_EQ(all[0]["text"], "you");
  }
}

TEST(Errors, NameFlagsWhereTheLibraryNamesFields) {
  const ModelFolder model;
  const TemporaryFolder folder;
  EXPECT_EQ(run({"embed", "--max-length", "34", "-m", model.name(), "you"}).err,
            "bertie: --max-length 34 is out of range: this model takes 3 to 33 tokens\n"
            "  try: --max-length 33\n");
  ASSERT_EQ(run({"convert", model.name(), folder / "new"}).code, 0);
  const Result again = run({"convert", model.name(), folder / "new"});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  EXPECT_EQ(again.err.find('`'), std::string::npos) << again.err;
}

TEST(Errors, LeaveBackticksOfTheUsersAlone) {
  const TemporaryFolder folder;
  write_all(folder / "`top`", "use `top` here\n");
  const Result r =
      run({"pair", "-m", golden("text-classification-bert"), "-f", folder / "`top`", "-f", folder / "`top`"});
  EXPECT_NE(r.err.find("`top`:1: not two texts: \"use `top` here\"\n"), std::string::npos) << r.err;
}

TEST(Errors, OfOptionsEndWithTwoWhoeverFindsThem) {
  const ModelFolder model;
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"embed", "--max-length", "9999", "you", "-m", model.name()},
        {"pretrain", "--data", "x", "--size", "tiny", "--config", "x"},
        {"pretrain", "--size", "tiny"},
        {"bench", "encode", "--model", "nope"},
        {"bench", "encode", "--shape", "9"},
        {"bench", "encode", "in.txt"},
        {"attend", "--layer", "9", "you", "-m", model.name()},
        {"embed", "--npy", "-", "you", "-m", model.name()},
        {"embed", "--npy", "", "you", "-m", model.name()},
        {"generate", "--top-p", "2", "a", "b", "-m", golden("text-generation-gpt2")},
        {"prepare", "--held-out", "1", "--vocab", model / "vocab.txt", "--out", model / "x",
         model / "vocab.txt"},
        {"prepare", "--cased", "--vocab", model / "config.json", "--out", model / "x", model / "vocab.txt"},
        {"tokenize", "--cased", "--vocab", model / "config.json", "you"}}) {
    const Result r = run(wrong);
    EXPECT_EQ(r.code, 2) << testing::PrintToString(wrong) << r.err;
    EXPECT_EQ(lines(r.err).size(), 2u) << r.err;
  }
  EXPECT_FALSE(fs::exists(model / "x"));
}

TEST(Errors, NameCommandsWhereTheLibraryNamesFunctions) {
  const TemporaryFolder home;
  const How how{.environment = {{"HF_HOME", home.path()}}};
  for (const std::vector<std::string>& command : {std::vector<std::string>{"embed", "-m", "org/mini", "you"},
                                                  {"embed", "-m", "org/mini@main", "you"},
                                                  {"bench", "load", "org/mini"},
                                                  {"bench", "tokenize", "-m", "org/mini", "x"},
                                                  {"convert", "org/mini", "x"}}) {
    const Result r = run(command, how);
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("  try: bertie pull org/mini"), std::string::npos) << r.err;
  }
}

TEST(Choices, AreCheckedByTheParserWithTheNearestOne) {
  for (const auto& [command, wrong, right] : {std::tuple("tag", "--group averag", "--group average"),
                                              {"convert", "--dtype fp61", "--dtype fp16"},
                                              {"pretrain", "--schedule cosin", "--schedule cosine"},
                                              {"pretrain", "--size tinny", "--size tiny"},
                                              {"bench", "--mechanism windw256", "--mechanism window256"}}) {
    const std::string text = wrong;
    const size_t space = text.find(' ');
    const Result r = run({command, text.substr(0, space), text.substr(space + 1)});
    EXPECT_EQ(r.code, 2) << r.out;
    EXPECT_NE(r.err.find(fmt::format("  try: {}\n", right)), std::string::npos) << r.err;
  }
}

}  // namespace
