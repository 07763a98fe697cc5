// Files that commands write: never over what they read, never over another file unasked.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

using namespace bertie::test;

namespace {

TEST(Outputs, AreNeverWrittenOverWhatIsRead) {
  const ModelFolder model;
  const TemporaryFolder folder;
  write_all(folder / "self.txt", "you\nme\n");
  fs::create_symlink("self.txt", folder / "link");
  fs::create_hard_link(folder / "self.txt", folder / "twin");
  const std::string self = folder / "self.txt";
  for (const char* name : {"self.txt", "link", "twin"})
    for (const char* force : {"--quiet", "--force"}) {
      const Result r = run({"embed", "-m", model.name(), "-f", self, "--npy", folder / name, force});
      EXPECT_EQ(r.code, 1) << name << force;
      EXPECT_NE(r.err.find("a file that is read"), std::string::npos) << r.err;
      EXPECT_EQ(read_all(self), "you\nme\n");
    }
  const Result piped =
      run_shell("$BERTIE embed -m " + model.name() + " --force --npy " + self + " < " + self);
  EXPECT_EQ(piped.code, 1);
  EXPECT_NE(piped.err.find("standard input"), std::string::npos) << piped.err;
  EXPECT_EQ(read_all(self), "you\nme\n");
  EXPECT_EQ(folder.entries(), 3u);
}

TEST(Outputs, AreNeverWrittenOverTheModel) {
  const ModelFolder model;
  const std::string weights = read_all(model / "model.safetensors");
  for (const char* command : {"embed", "attend"}) {
    const Result r =
        run({command, "-m", model.name(), "--force", "--npy", model / "model.safetensors", "you"});
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_NE(r.err.find("which is read"), std::string::npos) << r.err;
  }
  EXPECT_EQ(read_all(model / "model.safetensors"), weights);
}

TEST(Outputs, ReplaceAFileOnlyWithForce) {
  const ModelFolder model;
  const TemporaryFolder folder;
  for (const char* command : {"embed", "attend"}) {
    write_all(folder / "v.npy", "before");
    const Result refused = run({command, "-m", model.name(), "--npy", folder / "v.npy", "you"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find("is there already\n  try: --force"), std::string::npos) << refused.err;
    EXPECT_EQ(read_all(folder / "v.npy"), "before");
    EXPECT_EQ(run({command, "-m", model.name(), "--force", "--npy", folder / "v.npy", "you"}).code, 0);
    EXPECT_NE(read_all(folder / "v.npy"), "before");
  }
}

TEST(Outputs, OfVocabAreNotItsTexts) {
  const TemporaryFolder folder;
  const std::string text = "you found me the river bank\n";
  write_all(folder / "texts.txt", text);
  for (const fs::path& input : {folder / "texts.txt", folder.path()}) {
    const Result r = run({"vocab", "--force", "--size", "100", "--out", folder / "texts.txt", input});
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(read_all(folder / "texts.txt"), text);
  }
  write_all(folder / "tokenizer_config.json", text);
  const Result beside =
      run({"vocab", "--force", "--out", folder / "vocab.txt", folder / "tokenizer_config.json"});
  EXPECT_EQ(beside.code, 1);
  EXPECT_NE(beside.err.find("it is a file that is read"), std::string::npos) << beside.err;
  EXPECT_EQ(read_all(folder / "tokenizer_config.json"), text);
}

TEST(Outputs, OfPrepareAreNeverWrittenOverAnotherModelsTokenizer) {
  const TemporaryFolder folder;
  const fs::path tasks = source_dir() / "tests/golden/tasks";
  fs::copy(tasks / "text-classification-roberta", folder / "model", fs::copy_options::recursive);
  write_all(folder / "in.txt", "you found me\n");
  const std::string before = read_all(folder / "model/tokenizer.json");
  for (const char* force : {"--quiet", "--force"}) {
    const Result r = run({"prepare", force, "--vocab", tasks / "fill-mask-bert/tokenizer.json", "--out",
                          folder / "model", folder / "in.txt"});
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("has files of another tokenizer"), std::string::npos) << r.err;
    EXPECT_EQ(read_all(folder / "model/tokenizer.json"), before);
    EXPECT_FALSE(fs::exists(folder / "model/shards.json"));
  }
}

// Waits until `done` is true, for up to half a minute.
bool wait_for(const std::function<bool()>& done) {
  for (int i = 0; i < 600 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return done();
}

TEST(Outputs, OfWorkThatIsStoppedCanBeGoneOnWith) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const std::string fifo = folder / "texts";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int writer = open(fifo.c_str(), O_RDWR);  // it never ends, so the program waits for more
  const Result r = run({"embed", "-m", model.name(), "--npy", folder / "v.npy", "-f", fifo},
                       {.meanwhile = [&](pid_t child) {
                         ASSERT_EQ(write(writer, "you\nme\n", 7), 7);
                         EXPECT_TRUE(wait_for([&] {  // both rows are marked
                           const std::string journal = read_all(folder / "v.npy.part.journal");
                           return journal.find("\n2 ") != journal.npos;
                         }));
                         kill(child, SIGINT);
                       }});
  close(writer);
  EXPECT_EQ(r.code, 130);
  EXPECT_NE(r.err.find("stopped: the first 2 are done, and in"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("v.npy -f " + fifo + " --resume"), std::string::npos) << r.err;
  EXPECT_EQ(folder.entries(), 3u);  // the pipe, the rows, how far they are
  const Result on =
      run({"embed", "-m", model.name(), "--npy", folder / "v.npy", "--resume", "you", "me", "bank"});
  EXPECT_EQ(on.code, 0) << on.err;
  const Result whole = run({"embed", "-m", model.name(), "--npy", folder / "w.npy", "you", "me", "bank"});
  EXPECT_EQ(read_all(folder / "v.npy"), read_all(folder / "w.npy")) << whole.err;
}

TEST(Outputs, OfWorkThatEndsWithAnErrorCanBeGoneOnWith) {
  const ModelFolder model;
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "you\n";
  write_all(folder / "texts", lines + "caf\xE9\nme\n");
  const std::vector<std::string> command{"embed",          "-m", model.name(),    "--npy",
                                         folder / "v.npy", "-f", folder / "texts"};
  std::vector<std::string> strict = command, resumed = command;
  strict.push_back("--strict"), resumed.push_back("--resume");
  const Result r = run(strict);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("stopped: the first"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("texts:301: not valid UTF-8"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(folder / "v.npy"));
  const Result on = run(resumed);
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(read_npy(folder / "v.npy").shape, (std::vector<size_t>{302, 64}));
}

// A disk that is full: what fits is kept for when there is room.
TEST(Outputs, ThatDoNotFitAreGoneOnWithWhenThereIsRoom) {
  const ModelFolder model;
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "you\n";
  write_all(folder / "texts", lines);
  const std::string command = "$BERTIE embed -m " + model.name() + " --npy " + (folder / "v.npy").string() +
                              " -f " + (folder / "texts").string();
  const Result r = run_shell("ulimit -f 200; trap '' XFSZ; " + command);
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("cannot write"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(folder / "v.npy"));
  const Result on = run_shell(command + " --resume");
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(read_npy(folder / "v.npy").shape, (std::vector<size_t>{2000, 64}));
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(Outputs, OfWorkThatIsStoppedBeforeItsFirstRowAreNotThere) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const std::string fifo = folder / "texts";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int writer = open(fifo.c_str(), O_RDWR);
  const Result r = run({"embed", "-m", model.name(), "--npy", folder / "v.npy", "-f", fifo},
                       {.meanwhile = [&](pid_t child) {
                         EXPECT_TRUE(wait_for([&] { return folder.entries() == 3; }));
                         std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it has its handler
                         kill(child, SIGTERM);
                       }});
  close(writer);
  EXPECT_EQ(r.code, 128 + SIGTERM);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Attend, WritesPicturesAndAPage) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const auto attend = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"attend", "-m", model.name(), "you found me"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Result made =
      attend({"--html", folder / "a.html", "--svg", folder / "a.svg", "--png", folder / "a.png"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "");
  EXPECT_TRUE(read_all(folder / "a.html").starts_with("<!doctype html>"));
  EXPECT_TRUE(read_all(folder / "a.svg").starts_with("<svg "));
  EXPECT_TRUE(read_all(folder / "a.png").starts_with("\x89PNG"));
  EXPECT_NE(attend({"--svg", folder / "a.svg"}).code, 0) << "there is one already";
  EXPECT_EQ(attend({"--layer", "2", "--head", "1", "--svg", folder / "h.svg"}).code, 0);
  EXPECT_NE(read_all(folder / "h.svg").find("layer 2, head 1"), std::string::npos);
  EXPECT_EQ(attend({"--head", "1", "--svg", folder / "n.svg"}).code, 2);
  EXPECT_EQ(attend({"--top", "1", "--png", folder / "n.png"}).code, 2);
}

}  // namespace
