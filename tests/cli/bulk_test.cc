// Many inputs: the same bytes for any number of threads and processes, and after any interruption.
#include <fcntl.h>
#include <sys/stat.h>

#include "program.h"
#include "train/mpirun.h"

using namespace bertie::test;

namespace {

std::string golden(const std::string& name) { return source_dir() / "tests/golden/tasks" / name; }

// Lines of all lengths; one of a hundred is not UTF-8.
std::string many_lines(size_t count, const std::string& word) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    for (size_t w = 0; w <= i * 7 % 11; ++w)
      all += (w ? " " : "") + (w == i % 5 ? word : std::to_string(i * w));
    all += i % 100 == 99 ? " caf\xE9\n" : "\n";
  }
  return all;
}

// A command of each kind, what it works on, and names for its results.
struct Job {
  std::vector<std::string> command;
  std::string input;
  std::vector<std::string> outputs;
};

std::vector<Job> jobs(const TemporaryFolder& folder) {
  write_all(folder / "texts", many_lines(700, "river"));
  write_all(folder / "masks", many_lines(300, "[MASK]"));  // some have none
  std::string pairs, questions;
  for (int i = 0; i < 300; ++i) {
    pairs += "the river " + std::to_string(i) + (i % 50 == 7 ? " alone\n" : "\tthe bank\n");
    questions += "who " + std::to_string(i) + "\tAnna found " + std::to_string(i) + " by the river.\n";
  }
  write_all(folder / "pairs", pairs);
  write_all(folder / "questions", questions);
  return {
      {{"embed", "-m", golden("sentence-similarity-bert")}, folder / "texts", {"e.npy", "e.jsonl", "e.csv"}},
      {{"classify", "-m", golden("text-classification-bert")}, folder / "texts", {"c.jsonl", "c.tsv"}},
      {{"pair", "-m", golden("text-classification-roberta")}, folder / "pairs", {"p.csv"}},
      {{"next-sentence", "-m", golden("next-sentence-bert")}, folder / "pairs", {"n.jsonl"}},
      {{"tag", "-m", golden("token-classification-bert")}, folder / "texts", {"t.jsonl", "t.csv"}},
      {{"answer", "-m", golden("question-answering-bert")}, folder / "questions", {"a.jsonl", "a.csv"}},
      {{"fill-mask", "-m", golden("fill-mask-bert")}, folder / "masks", {"f.jsonl"}},
      {{"score", "-m", golden("fill-mask-bert")}, folder / "questions", {"s.jsonl"}},
  };
}

Result run_job(const Job& job, const std::vector<std::string>& more) {
  std::vector<std::string> all = job.command;
  all.insert(all.end(), {"--file", job.input});
  all.insert(all.end(), more.begin(), more.end());
  return run(all);
}

TEST(Bulk, ResultsAreTheSameBytesForAnyNumberOfThreadsAndInAFile) {
  const TemporaryFolder folder;
  for (const Job& job : jobs(folder))
    for (const std::string& name : job.outputs) {
      const Result one = run_job(job, {"-t", "1", "-o", folder / name});
      const std::string whole = read_all(folder / name);
      EXPECT_GT(whole.size(), 1000u) << name << one.err;
      EXPECT_FALSE(fs::exists((folder / name).string() + ".part")) << name;
      const Result four = run_job(job, {"-t", "4", "--force", "--out", folder / name});
      EXPECT_EQ(read_all(folder / name), whole) << name;
      EXPECT_EQ(four.code, one.code) << name;
      EXPECT_EQ(four.err, one.err) << "what is said comes in order too";
      if (name.ends_with(".npy")) continue;
      const std::string format = fs::path(name).extension().string().substr(1);
      const Result printed = run_job(job, {"--format", format == "jsonl" ? "json" : format});
      if (printed.code != 2) {  // where there is --format
        EXPECT_EQ(printed.out, whole) << name;
      }
    }
}

void kill_when_begun(const std::string& part, pid_t child) {
  for (int i = 0; i < 3000; ++i) {
    const std::string journal = read_all(part + ".journal");
    if (std::count(journal.begin(), journal.end(), '\n') > 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child, SIGKILL);
}

TEST(Bulk, WorkThatIsKilledGoesOnToTheSameBytes) {
  const TemporaryFolder folder;
  size_t killed = 0;
  for (const Job& job : jobs(folder))
    for (const std::string& name : job.outputs) {
      const std::string out = folder / name, part = out + ".part";
      const Result whole = run_job(job, {"-t", "2", "-o", folder / ("whole_" + name)});
      const std::string want = read_all(folder / ("whole_" + name));
      std::vector<std::string> words = job.command;
      words.insert(words.end(), {"-t", "2", "-q", "--file", job.input, "-o", out});
      const Result cut_off = run(words, {.meanwhile = [&](pid_t child) { kill_when_begun(part, child); }});
      killed += cut_off.code == 1000 + SIGKILL;
      if (cut_off.code != 1000 + SIGKILL) {  // it was faster
        EXPECT_EQ(read_all(out), want) << name;
        continue;
      }
      if (fs::exists(out)) {  // killed between giving the file its name and removing the journal
        EXPECT_EQ(read_all(out), want) << name;
        EXPECT_FALSE(fs::exists(part)) << name;
        continue;
      }
      const Result again = run_job(job, {"-o", out});
      EXPECT_EQ(again.code, 2) << name;
      EXPECT_NE(again.err.find("--resume goes on with it"), std::string::npos) << again.err;
      const Result r = run_job(job, {"-o", out, "--resume"});
      EXPECT_EQ(r.code, whole.code) << r.err;
      EXPECT_EQ(read_all(out), want) << name;
      EXPECT_NE(r.err.find("goes on behind"), std::string::npos) << r.err;
      EXPECT_FALSE(fs::exists(part)) << name;
      EXPECT_FALSE(fs::exists(part + ".journal")) << name;
    }
  EXPECT_GT(killed, 0u);
}

// As if it had been killed at any moment: between a result and its mark, within either.
TEST(Bulk, AnyEndOfWhatWasBegunIsGoneOnWith) {
  const ModelFolder model;
  const TemporaryFolder folder;
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += i % 3 ? "you found me\n" : "the river bank\n";
  write_all(folder / "texts", texts + "caf\xE9\n");
  const std::string out = folder / "v.csv", part = out + ".part", journal = part + ".journal";
  const auto embed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"embed", "-m", model.name(), "-f", folder / "texts", "-o", out});
    return run(more);
  };
  ASSERT_EQ(embed({}).code, 0);
  const std::string want = read_all(out);
  fs::remove(out);
  ASSERT_EQ(embed({"--strict", "-t", "1"}).code, 1);  // ends at its last line, and keeps what came before
  const std::string begun = read_all(part), marks = read_all(journal);
  const size_t first = marks.find('\n') + 1;
  for (const size_t bytes : {size_t{0}, size_t{5}, begun.size() / 2, begun.size() - 1, begun.size()})
    for (const size_t marked :
         {first, first + 3, (first + marks.size()) / 2, marks.size() - 1, marks.size()}) {
      fs::remove(out);
      write_all(part, begun.substr(0, bytes) + (bytes == begun.size() ? "0.1,0." : ""));
      write_all(journal, marks.substr(0, marked));
      const Result r = embed({"--resume"});
      EXPECT_EQ(r.code, 0) << r.err;
      EXPECT_EQ(read_all(out), want) << bytes << " " << marked;
    }
}

TEST(Bulk, OtherWorkIsNotTakenForWhatWasBegun) {
  const ModelFolder model;
  const TemporaryFolder folder;
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += "you found me\n";
  write_all(folder / "texts", texts + "caf\xE9\n");
  const std::string out = folder / "v.npy", part = out + ".part";
  const auto embed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"embed", "-m", model.name(), "-f", folder / "texts", "--npy", out});
    return run(more);
  };
  ASSERT_EQ(embed({"--strict"}).code, 1);
  const std::string begun = read_all(part);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    const Result r = embed(more);
    EXPECT_NE(r.code, 0) << why;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_EQ(read_all(part), begun) << why;
    EXPECT_FALSE(fs::exists(out));
  };
  refused({}, "--resume goes on with it");
  refused({"--resume", "--pooling", "max"}, "another --pooling");
  refused({"--resume", "--prefix", "you "}, "another --prefix");
  refused({"--resume", "--json"}, "standard output");
  refused({"--resume", "--part", "1/2"}, "another number of processes");
  write_all(folder / "texts", "the" + texts.substr(3));
  refused({"--resume"}, "not the texts of what was begun");
  write_all(folder / "texts", "you found me\n");
  refused({"--resume"}, "there are 1 texts");
  write_all(folder / "texts", texts);
  const std::string vocabulary = read_all(model / "vocab.txt");
  write_all(model / "vocab.txt", vocabulary + "more\n");
  refused({"--resume"}, "another model");
  write_all(model / "vocab.txt", vocabulary);
  EXPECT_EQ(embed({"--resume", "-t", "3"}).code, 0) << "threads are no other work";
  EXPECT_EQ(read_npy(out).shape, (std::vector<size_t>{400, 64}));
  EXPECT_EQ(run({"embed", "-m", model.name(), "--resume", "you"}).code, 2) << "no file";
  EXPECT_EQ(run({"score", "-o", folder / "s.csv", "you"}).code, 2) << "score has no tables";
}

TEST(Bulk, PartsMakeTheSameBytesWhoeverIsLast) {
  const TemporaryFolder folder;
  for (const Job& job : jobs(folder)) {
    const std::string& name = job.outputs[0];
    const std::string out = folder / name;
    const Result whole = run_job(job, {"-o", out});
    const std::string want = read_all(out);
    fs::remove(out);
    int code = 0;
    for (const char* one : {"3/3", "1/3", "2/3"}) {
      EXPECT_FALSE(fs::exists(out)) << name;
      const Result r = run_job(job, {"-o", out, "--part", one});
      EXPECT_TRUE(r.code == 0 || one == std::string("2/3")) << r.err;
      code = r.code;
    }
    EXPECT_EQ(code, whole.code) << "what failed in any of them is told by the last";
    EXPECT_EQ(read_all(out), want) << name;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
  }
}

TEST(Bulk, RanksMakeTheSameBytes) {
  BERTIE_NEEDS_MPI();
  const TemporaryFolder folder;
  for (const Job& job : jobs(folder)) {
    const std::string out = folder / job.outputs[0];
    const Result whole = run_job(job, {"-o", out});
    const std::string want = read_all(out);
    std::string words;
    for (const std::string& word : job.command) words += "'" + word + "' ";
    words += "--file " + job.input + " --force -o " + out;
    const Result r = mpirun(3, kProgram, words);
    EXPECT_EQ(r.code, whole.code) << r.err;
    EXPECT_EQ(read_all(out), want) << r.err;
  }
  const Result printed = mpirun(2, kProgram, "embed -m " + golden("sentence-similarity-bert") + " you");
  EXPECT_EQ(printed.code, 2) << printed.err;
  EXPECT_NE(printed.err.find("-o FILE"), std::string::npos) << printed.err;
}

}  // namespace
