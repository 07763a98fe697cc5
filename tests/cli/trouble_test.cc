// Files that are wrong, disks that are full, pipes that close, text that is not text, terminals.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "program.h"

using namespace bertie::test;

namespace {

void expect_error(const Result& r, const std::string& what, const std::string& hint, int code = 1) {
  EXPECT_EQ(r.code, code);
  EXPECT_EQ(r.out, "");
  const std::vector<std::string> said = lines(r.err);
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(said[0].starts_with("bertie: ")) << r.err;
  EXPECT_NE(said[0].find(what), std::string::npos) << r.err;
  if (hint.empty()) return;
  ASSERT_EQ(said.size(), 2u) << r.err;
  EXPECT_TRUE(said[1].starts_with("  try: ")) << r.err;
  EXPECT_NE(said[1].find(hint), std::string::npos) << r.err;
}

TEST(Trouble, AMissingModelIsNamed) {
  expect_error(run({"embed", "-m", "/no/such/model", "you"}), "no model \"/no/such/model\"", "config.json");
  expect_error(run({"embed", "you"}, {.environment = {{"BERTIE_MODEL", "/no/such"}}}), "$BERTIE_MODEL",
               "config.json");
  expect_error(run({"info", "/etc/passwd"}), "not a folder", "config.json");
  const TemporaryFolder empty;
  expect_error(run({"embed", "-m", empty.path(), "you"}), "it has no config.json", "model.safetensors");
}

TEST(Trouble, ABrokenModelIsAnErrorThatNamesTheFile) {
  const ModelFolder model;
  fs::resize_file(model / "model.safetensors", 1000);
  expect_error(run({"embed", "-m", model.name(), "you"}), "model.safetensors", "");
  write_all(model / "config.json", "{\"hidden_size\": \"many\"}");
  expect_error(run({"info", model.name()}), "config.json", "");
}

TEST(Trouble, AnEncoderDecoderIsNamedAndWhatCanBeDoneWithIt) {
  const std::string name = source_dir() / "tests/golden/families/marian-seq2seq-0";
  for (const char* command : {"embed", "attend", "explain", "tokenize"})
    expect_error(run({command, "-m", name, "you"}), "this is an encoder-decoder", "bertie::Transformer");
  expect_error(run({"bench", "load", name}), "this is an encoder-decoder", "bertie::Transformer");
}

TEST(Trouble, AMissingTextFileIsFoundBeforeAnyWorkIsDone) {
  const ModelFolder model;
  expect_error(run({"embed", "-m", model.name(), "you", "-f", "/no/such/file"}), "cannot read /no/such/file",
               "path");
  expect_error(run({"embed", "-m", model.name(), "-f", model.name()}), "directory", "");
}

TEST(Trouble, ANamedPipeIsReadOnceAndWhole) {
  const ModelFolder model;
  const std::string pipe = model / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(pipe);
    for (int i = 0; i < 3000; ++i) out << "you\n";
  });
  const Result r = run({"embed", "-m", model.name(), "--json", "-f", pipe});
  writer.join();
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines(r.out).size(), 3000u);
}

TEST(Trouble, AttendingToALongerTextThanTheModelTakesIsAnError) {
  const ModelFolder model;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "you ";
  expect_error(run({"attend", "-m", model.name(), text}), "42 tokens", "shorter");
  expect_error(run({"attend", "-m", model.name(), "--layer", "3", "you"}), "no layer 3", "--layer 2", 2);
  expect_error(run({"attend", "-m", model.name(), "--head", "3", "you"}), "no head 3", "--head 2", 2);
  expect_error(run({"embed", "-m", model.name(), "--max-length", "34", "you"}), "34", "", 2);
}

TEST(Trouble, AFullDiskIsAnError) {
  const ModelFolder model;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"help"}, {"demo", "--json"}, {"embed", "-m", model.name(), "you"}}) {
    const Result r = run(arguments, {.output_to = "/dev/full"});
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("standard output: No space left"), std::string::npos) << r.err;
  }
  EXPECT_EQ(run_shell("$BERTIE help >&-").code, 1);
}

TEST(Trouble, AnNpyFileThatCannotBeWrittenLeavesNothingBehindAndTheOldOneAlone) {
  const ModelFolder model;
  const TemporaryFolder folder;
  expect_error(run({"embed", "-m", model.name(), "--npy", folder / "none/v.npy", "you"}), "cannot write",
               "mkdir -p");
  expect_error(run({"embed", "-m", model.name(), "--npy", folder.path(), "you"}), "a folder", "file");
  expect_error(run({"embed", "-m", model.name(), "--npy", "/dev/null", "you"}), "not a regular file", "file");
  write_all(folder / "old.npy", "before");
  // A file size limit is a disk that is full after 4 blocks.
  std::string texts;
  for (int i = 0; i < 200; ++i) texts += " you";
  const Result r = run_shell("ulimit -f 8; trap '' XFSZ; $BERTIE embed -q --force -m " + model.name() +
                             " --npy " + (folder / "old.npy").string() + texts);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot write"), std::string::npos) << r.err;
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(read_all(folder / "old.npy"), "before");
}

TEST(Trouble, ALinkToAnNpyFileStaysALink) {
  const ModelFolder model;
  const TemporaryFolder folder;
  write_all(folder / "target.npy", "before");
  fs::create_symlink("target.npy", folder / "link.npy");
  EXPECT_EQ(run({"embed", "-m", model.name(), "--force", "--npy", folder / "link.npy", "you"}).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link.npy"));
  EXPECT_EQ(read_npy(folder / "target.npy").shape, (std::vector<size_t>{1, 64}));
}

TEST(Trouble, AClosedPipeEndsQuietly) {
  const ModelFolder model;
  const Result r =
      run_shell("yes you found me | head -20000 | $BERTIE embed -m " + model.name() + " | head -1 | wc -l");
  EXPECT_EQ(lines(r.out), std::vector<std::string>{"1"});
  EXPECT_EQ(r.err, "");
}

TEST(Trouble, NobodyWhoReadsErrorsIsNoReasonToLoseResults) {
  const ModelFolder model;
  const std::string npy = model / "o.npy";
  const std::string embed =
      "yes you | head -300 | $BERTIE embed -v --force -m " + model.name() + " --npy " + npy;
  for (const char* nobody : {"2>&-", "2>/dev/full", "2> >(true)"}) {
    const Result r = run_shell("bash -c '" + embed + " " + nobody + "'");
    EXPECT_EQ(r.code, 0) << nobody << r.err;
    EXPECT_EQ(read_npy(npy).shape, (std::vector<size_t>{300, 64})) << nobody;
    fs::remove(npy);
    EXPECT_EQ(run_shell(fmt::format("bash -c '$BERTIE embed -m /no/such you {}'", nobody)).code, 1) << nobody;
  }
}

TEST(Trouble, NothingIsComparedWithNothing) {
  const ModelFolder model;
  for (const char* format : {"--json", "--quiet"}) {
    const Result r = run({"similar", "-m", model.name(), format});
    EXPECT_EQ(r.code, 0);
    EXPECT_EQ(r.out + r.err, "");
  }
}

TEST(Trouble, ThereMayBeMoreFilesThanMayBeOpen) {
  const ModelFolder model;
  write_all(model / "text", "you\n");
  const Result r = run_shell("ulimit -n 40; $BERTIE tokenize --ids -m " + model.name() +
                             " $(for i in $(seq 60); do echo -f " + (model / "text").string() + "; done)");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines(r.out).size(), 60u);
}

TEST(Trouble, BytesThatAreNotTextGiveValidJson) {
  const ModelFolder model;
  const std::string hostile =
      std::string("you \xff\xc3 \xed\xa0\x80 \x1b[31m \xc2\x9b ") + '\0' + " \xe2\x80\xae me";
  for (const std::string command : {"tokenize", "embed"}) {
    const Result r = run({command, "--json", "-m", model.name(), "-f", "-"}, {.input = hostile + "\nbank\n"});
    EXPECT_EQ(r.code, 0) << r.err;
    ASSERT_EQ(lines(r.out).size(), 2u);
    for (const std::string& line : lines(r.out)) EXPECT_TRUE(json::accept(line)) << line;
  }
}

// Needs a pseudo-terminal, which not every container has.
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0 || !ptsname(terminal) ||
        !fs::exists(ptsname(terminal)))
      GTEST_SKIP() << "no pseudo-terminals here";
    close(terminal);
  }
};

// Nothing but printable bytes and line ends.
void expect_clean(const std::string& text) {
  EXPECT_NE(text, "");
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = uint8_t(text[i]);
    EXPECT_FALSE((byte < 0x20 && byte != '\n' && byte != '\r') || byte == 0x7F)
        << "byte " << int(byte) << " at " << i;
    EXPECT_FALSE(byte == 0xC2 && i + 1 < text.size() && uint8_t(text[i + 1]) < 0xA0)
        << "a C1 control at " << i;
  }
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos) << "writes backwards";
}

TEST_F(Terminal, GetsNoEscapeSequences) {
  const TemporaryFolder folder;
  // A vocabulary with hostile tokens, so that they come out as tokens too.
  const std::string hostile = "\x1b]0;title\x07";
  write_all(folder / "vocab.txt", std::string(kVocabulary) +
                                      "\xc2\x9b"
                                      "31m\n" +
                                      hostile + "\n\xe2\x80\xae\n");
  const std::string vocab = folder / "vocab.txt";
  const How plain{.environment = {{"NO_COLOR", "1"}}, .terminal = true};
  const std::string text = "you " + hostile +
                           " \xc2\x9b"
                           "31m \xe2\x80\xae \x7f me";
  for (const std::string format : {"--json", "--ids", "--quiet"})
    expect_clean(run({"tokenize", "--vocab", vocab, format, text, text}, plain).out);
  expect_clean(run({"embed", "-m", "/no/" + hostile, "you"}, plain).out);
  expect_clean(run({"tokenize", "--vocab", "/no/" + hostile, "you"}, plain).out);
  expect_clean(run({"tokenize", "--vocab", vocab, "-f", "/no/" + hostile}, plain).out);
  expect_clean(run({"em" + hostile}, plain).out);
  expect_clean(run({"--" + hostile}, plain).out);
  expect_clean(run({"demo", hostile}, plain).out);
  expect_clean(run({"explain", "--query", hostile}, plain).out);
}

TEST_F(Terminal, WithoutTextItSaysWhatToDoInsteadOfWaiting) {
  const ModelFolder model;
  const Result r = run({"embed", "-m", model.name()}, {.terminal = true});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.out.find("no text"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("--file"), std::string::npos) << r.out;
}

TEST_F(Terminal, ColorsAreForTerminalsThatWantThem) {
  const std::string kEnter(20, '\n');  // the demo waits between its screens
  for (const std::string command : {"demo", "explain"}) {
    EXPECT_NE(run({command}, {.input = kEnter, .terminal = true}).out.find("\x1b["), std::string::npos);
    EXPECT_EQ(run({command}, {.input = kEnter, .environment = {{"NO_COLOR", "1"}}, .terminal = true})
                  .out.find('\x1b'),
              std::string::npos);
  }
  EXPECT_EQ(
      run({"demo"}, {.input = kEnter, .environment = {{"TERM", "dumb"}}, .terminal = true}).out.find('\x1b'),
      std::string::npos);
  EXPECT_EQ(run({"demo"}).out.find('\x1b'), std::string::npos);
}

TEST_F(Terminal, EmbedGivesASummaryToReadAndJsonWhenAsked) {
  const ModelFolder model;
  const Result summary = run({"embed", "-m", model.name(), "you found me"}, {.terminal = true});
  EXPECT_EQ(summary.code, 0);
  EXPECT_NE(summary.out.find("64 numbers, norm "), std::string::npos) << summary.out;
  EXPECT_EQ(summary.out.find('{'), std::string::npos);
  const Result exact = run({"embed", "--json", "-m", model.name(), "you found me"}, {.terminal = true});
  EXPECT_TRUE(json::accept(exact.out)) << exact.out;
}

TEST_F(Terminal, ProgressIsShownWhereResultsGoToAFile) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const Result r = run({"embed", "-m", model.name(), "--npy", folder / "v.npy", "you"}, {.terminal = true});
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("1 texts in"), std::string::npos) << r.out;
  EXPECT_EQ(
      run({"embed", "-q", "-m", model.name(), "--npy", folder / "w.npy", "you"}, {.terminal = true}).out, "");
}

}  // namespace
