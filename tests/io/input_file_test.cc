// Reading files that may be packed.
#include "io/input_file.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "core/random.h"
#include "io/checksum.h"
#include "packed.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

using test::expect_error;
using test::TempFolder;

std::string some_text(size_t bytes) {
  Random random(4);
  std::string text;
  while (text.size() < bytes) text += "line " + std::to_string(random.below(1000)) + "\n";
  return text;
}

std::string read_whole_file(const std::filesystem::path& path, size_t piece) {
  InputFile file(path.string());
  std::string all, buffer(piece, '\0');
  while (const size_t count = file.read(buffer)) all.append(buffer, 0, count);
  EXPECT_EQ(file.read(buffer), 0u);
  EXPECT_EQ(file.taken(), file.size());
  return all;
}

struct Packing {
  const char* name;
  std::string (*pack)(std::string_view);
};
const Packing kPackings[] = {{"gzip", test::gzip}, {"xz", test::xz}, {"zstd", test::zstd}};

TEST(InputFile, PackedOrNotGivesTheSameBytesInPiecesOfAnySize) {
  const TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5}, size_t{600'000}}) {
    const std::string text = some_text(size).substr(0, size);
    for (const size_t piece : {size_t{1'000'003}, size_t{4096}, size_t{17}}) {
      if (size > 100 && piece == 17) continue;
      EXPECT_TRUE(read_whole_file(folder.write("plain", text), piece) == text) << size;
      for (const Packing& p : kPackings)
        EXPECT_TRUE(read_whole_file(folder.write("packed", p.pack(text)), piece) == text) << p.name << size;
    }
  }
}

TEST(InputFile, AByteOrderMarkAtTheStartIsDropped) {
  const TempFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{4096}})
    for (const auto& [text, expected] :
         std::vector<std::pair<std::string, std::string>>{{mark, ""},
                                                          {mark + "a", "a"},
                                                          {mark + "text" + mark, "text" + mark},
                                                          {mark + mark + "text", mark + "text"},
                                                          {"\xEF\xBB", "\xEF\xBB"},
                                                          {"a" + mark, "a" + mark}}) {
      EXPECT_EQ(read_whole_file(folder.write("plain", text), piece), expected);
      for (const Packing& p : kPackings)
        EXPECT_EQ(read_whole_file(folder.write("packed", p.pack(text)), piece), expected) << p.name;
    }
}

TEST(InputFile, PackedPartsOneAfterTheOtherAreOneText) {
  const TempFolder folder;
  const std::string a = some_text(700'000), b = some_text(10);
  for (const Packing& p : kPackings)
    EXPECT_TRUE(read_whole_file(folder.write("two", p.pack(a) + p.pack(b)), 4096) == a + b) << p.name;
}

TEST(InputFile, DamagedPackedDataIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  const std::string text = some_text(50'000);
  for (const Packing& p : kPackings) {
    const std::string packed = p.pack(text);
    for (size_t keep = 7; keep < packed.size(); keep += 1 + packed.size() / 50) {
      const auto path = folder.write("short", packed.substr(0, keep));
      expect_error("short", [&] { read_whole_file(path, 4096); });
    }
    size_t wrong = 0;
    for (size_t place = 7; place < packed.size(); place += 1 + packed.size() / 50) {
      std::string broken = packed;
      broken[place] ^= 0x55;
      try {
        wrong += read_whole_file(folder.write("broken", broken), 4096) != text;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("broken"), std::string::npos);
      }
    }
    if (p.pack != test::zstd) {
      EXPECT_EQ(wrong, 0u) << p.name;  // these have a checksum of the text
    }
    const auto path = folder.write("more", packed + "this is no packed data");
    expect_error("more", [&] { read_whole_file(path, 4096); });
  }
}

TEST(InputFile, WhatIsNotThereOrAFolderIsAnError) {
  const TempFolder folder;
  expect_error("No such file", [&] { InputFile((folder.path() / "none").string()); });
  expect_error("directory", [&] { InputFile(folder.path().string()); });
}

TEST(Checksum, EveryBitAndTheLengthCount) {
  std::string text = some_text(200).substr(0, 200);
  for (size_t size = 0; size <= text.size(); ++size) {
    const uint64_t sum = checksum(std::string_view(text).substr(0, size));
    EXPECT_NE(sum, checksum(std::string_view(text).substr(0, size), 1));
    if (size == 0) continue;
    EXPECT_NE(sum, checksum(std::string_view(text).substr(0, size - 1)));
    for (size_t bit = 0; bit < 8 * size; bit += 7) {
      text[bit / 8] ^= char(1 << bit % 8);
      ASSERT_NE(sum, checksum(std::string_view(text).substr(0, size))) << size << " " << bit;
      text[bit / 8] ^= char(1 << bit % 8);
    }
  }
  EXPECT_NE(checksum(std::string(8, '\0')), checksum(std::string(9, '\0')));
  EXPECT_NE(chain(chain(0, 1), 2), chain(chain(0, 2), 1));
}

TEST(Checksum, StaysWhatItIs) {  // it is in files
  EXPECT_EQ(checksum(std::string_view("")), 10960460265433461447u);
  EXPECT_EQ(checksum(std::string_view("The checksum of this text never changes, or shards are damaged.")),
            5571145723221020314u);
}

TEST(Checksum, ItsBitsAreEven) {  // documents are chosen for the held-out part by it
  size_t counts[64] = {};
  constexpr int kTexts = 20'000;
  for (int i = 0; i < kTexts; ++i) {
    const uint64_t sum = chain(7, checksum(std::to_string(i)));
    for (int bit = 0; bit < 64; ++bit) counts[bit] += sum >> bit & 1;
  }
  for (int bit = 0; bit < 64; ++bit) EXPECT_NEAR(double(counts[bit]), kTexts / 2.0, 4 * 70.7) << bit;
}

}  // namespace
}  // namespace bertie::io
