// Results that are gone on with: what was marked is kept, what was not is made again.
#include "bertie/result_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bertie/error.h"
#include "bertie/journal.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_error(const std::string& words, const auto& body) {
  try {
    body();
    ADD_FAILURE() << "no Error: " << words;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

ResultFileOptions counted(bool resume, size_t rank = 0, size_t ranks = 1) {
  return {.work = R"({"model":"a"})",
          .front = [](uint64_t inputs) { return (inputs < 10 ? "0" : "") + std::to_string(inputs) + "\n"; },
          .resume = resume,
          .rank = rank,
          .ranks = ranks};
}

TEST(ResultFile, IsWholeAtItsEndAlone) {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "out";
  {
    ResultFile file(path, counted(false));
    EXPECT_EQ(file.done().inputs, 0u);
    file.add("one\n");
    file.mark({.inputs = 1, .sum = 7, .failed = 3});
    file.add("lost\n");
  }
  EXPECT_FALSE(fs::exists(path));
  expect_error("cut off", [&] { ResultFile again(path, counted(false)); });
  expect_error("another model", [&] {
    ResultFileOptions other = counted(true);
    other.work = R"({"model":"b"})";
    ResultFile again(path, other);
  });
  {
    ResultFile file(path, counted(true));
    EXPECT_EQ(file.done().inputs, 1u);
    EXPECT_EQ(file.done().sum, 7u);
    EXPECT_EQ(file.done().failed, 3u);
    expect_error("another process has", [&] { ResultFile second(path, counted(true)); });
    expect_error("another process has", [&] {
      ResultFileOptions anew = counted(false);
      anew.force = true;
      ResultFile second(path, anew);
    });
    file.add("two\n");
    EXPECT_TRUE(file.finish({.inputs = 12}));
  }
  EXPECT_EQ(content(path), "12\none\ntwo\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  expect_error("is there already", [&] { ResultFile again(path, counted(true)); });
}

TEST(ResultFile, LeavesNothingWhereNothingWasDone) {
  const test::TempFolder folder;
  { const ResultFile file(folder.path() / "out", counted(false)); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ResultFile, OfOthersIsNotTakenForOurs) {
  const test::TempFolder folder;
  std::ofstream(folder.path() / "out.part") << "somebody's";
  expect_error("is there already", [&] { ResultFile file(folder.path() / "out", counted(false)); });
  EXPECT_EQ(content(folder.path() / "out.part"), "somebody's");
  fs::create_directory(folder.path() / "folder");
  expect_error("a folder", [&] { ResultFile file(folder.path() / "folder", counted(false)); });
  expect_error("cannot write", [&] { ResultFile file(folder.path() / "no/out", counted(false)); });
}

TEST(ResultFile, OfSeveralIsInTheOrderOfTheInputs) {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "out";
  {
    ResultFile b(path, counted(false, 1, 2));
    b.add("2"), b.mark({.inputs = 4});
    b.add("4"), b.mark({.inputs = 8});
    EXPECT_FALSE(b.finish({.inputs = 10, .failed = 1}));
  }
  expect_error("another number", [&] { ResultFile one(path, counted(true)); });
  expect_error("another number", [&] { ResultFile one(path, counted(true, 0, 3)); });
  {
    ResultFile a(path, counted(false, 0, 2));
    a.add("1"), a.mark({.inputs = 2});
    a.add("3"), a.mark({.inputs = 6});
    a.add("5"), a.mark({.inputs = 10});
    expect_error("different inputs", [&] { (void)a.finish({.inputs = 9}); });
  }
  fs::remove(path.string() + ".part-1-of-2"), fs::remove(path.string() + ".part-1-of-2.journal");
  ResultFile a(path, counted(true, 0, 2));
  a.add("1"), a.mark({.inputs = 2});
  a.add("35"), a.mark({.inputs = 6});
  const std::optional<Mark> all = a.finish({.inputs = 10, .failed = 2});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->failed, 3u);
  EXPECT_EQ(content(path), "10\n12354");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Journal, ThatIsDamagedIsAnErrorAndOneThatWasCutOffIsNot) {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "journal";
  const auto marks_of = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return Journal(path, "{}").marks().size();
  };
  EXPECT_EQ(marks_of(""), 0u);
  EXPECT_EQ(marks_of("{"), 0u) << "its first line was not written to its end";
  EXPECT_EQ(marks_of("{}\n"), 0u);
  EXPECT_EQ(marks_of("{}\n1 0 2 3 4\n5 0 6 7"), 1u);
  EXPECT_EQ(content(path), "{}\n1 0 2 3 4\n");
  for (const char* bad : {"{}\n1 2\n", "{}\n1 0 2 3 4 5\n", "{}\n-1 0 2 3 4\n", "{}\nend\n1 0 2 3 4\n",
                          "{}\n\n", "{}\n99999999999999999999 0 0 0 0\n"})
    expect_error("damaged", [&] { (void)marks_of(bad); });
}

}  // namespace
}  // namespace bertie
