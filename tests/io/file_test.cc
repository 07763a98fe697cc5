#include "io/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

using test::expect_error;

TEST(MappedFile, GivesTheBytesOfTheFile) {
  test::TempFolder folder;
  const std::string text("one\0two\n", 8);
  MappedFile file(folder.write("text", text));
  EXPECT_EQ(file.text(), text);
  EXPECT_EQ(file.bytes().size(), 8u);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  test::TempFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("empty", "")).text().empty());
}

TEST(MappedFile, MovingKeepsTheAddress) {
  test::TempFolder folder;
  MappedFile first(folder.write("a", "alpha"));
  const std::byte* address = first.bytes().data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), address);
  MappedFile third(folder.write("b", "beta"));
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), address);
  EXPECT_EQ(third.text(), "alpha");
}

TEST(MappedFile, SaysWhatItCannotReadAndWhy) {
  test::TempFolder folder;
  auto missing = folder.path() / "missing";
  expect_error("cannot read " + missing.string() + ": No such file", [&] { MappedFile f(missing); });
  expect_error("it is a folder", [&] { MappedFile f(folder.path()); });
  auto below_a_file = folder.write("file", "x") / "below";
  expect_error("Not a directory", [&] { MappedFile f(below_a_file); });
}

TEST(MappedFile, DoesNotWaitForAPipe) {
  test::TempFolder folder;
  auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error("not a regular file", [&] { MappedFile f(pipe); });
}

TEST(MappedFile, SaysThatAFileMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  test::TempFolder folder;
  auto file = folder.write("secret", "x");
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  expect_error("Permission denied", [&] { MappedFile f(file); });
}

TEST(MappedFile, ErrorsHintAtWhatToTry) {
  try {
    MappedFile file("/nowhere/at/all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace
}  // namespace bertie::io
