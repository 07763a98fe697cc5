// Files that nobody vouches for as labelled data: refused, or read into rows that hold together.
#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput dataset_fuzz
#include "../../fuzz/dataset_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "core/random.h"

namespace bertie {
namespace {

// The first byte is the task, and 4 times the place of the name's ending: as in tools/fuzz_seeds.py.
const std::string kFiles[] = {
    "\x04text,label\r\n\"a, \"\"b\"\"\nc\",x\r\nd,y\r\n",
    "\x04text,labels\na,\"['x', 'y']\"\nb,[]\n",
    "\x0c{\"text\": \"a\", \"labels\": [\"x\", 1]}\n{\"text\": \"b\", \"labels\": []}\n",
    "\x10[{\"text\": \"a\", \"label\": 1.5}, {\"text\": \"b\", \"label\": 2}]",
    "\x09Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tA .\t\" B .\n0\t3\t4\tC\tD\n",
    "\x16-DOCSTART- -X- O O\n\nWest NNP I-NP I-MISC\nside NN I-NP O\n\nEU NNP I-NP B-ORG\n",
    "\x0e{\"tokens\": [\"EU\", \"x\"], \"ner_tags\": [\"U-ORG\", \"O\"]}\n",
    "\x13{\"version\": \"v2.0\", \"data\": [{\"paragraphs\": [{\"context\": \"Ännä  came\", \"qas\": "
    "[{\"id\": \"1\", "
    "\"question\": \"Who?\", \"answers\": [{\"text\": \"came\", \"answer_start\": 6}]}]}]}]}",
    "\x0f{\"question\": \"q\", \"context\": \"é came\", \"answers\": {\"text\": [\"came\"], "
    "\"answer_start\": [2]}}\n",
};

int read(const std::string& file) {
  return dataset_fuzz(reinterpret_cast<const uint8_t*>(file.data()), file.size());
}

TEST(HostileDataset, ChangedFilesAreRefusedOrHoldTogether) {
  size_t accepted = 0, refused = 0;
  const auto count = [&](const std::string& file) { ++(read(file) == 0 ? accepted : refused); };
  Random random(7);
  for (const std::string& file : kFiles) {
    EXPECT_EQ(read(file), 0) << file;
    for (size_t length = 1; length < file.size(); ++length) count(file.substr(0, length));
    for (size_t i = 0; i < 300; ++i) {
      std::string changed = file;
      for (uint32_t n = 1 + random.below(3); n > 0; --n) {
        const size_t at = 1 + random.below(uint32_t(file.size() - 1));
        static constexpr std::string_view kBytes =
            "\"\"\n\r\t,;{}[]:\\\0\xff"
            "0a";
        const char byte = kBytes[random.below(uint32_t(kBytes.size()))];
        if (random.below(2))
          changed[at] = byte;
        else
          changed.insert(at, 1, byte);
      }
      count(changed);
    }
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace bertie
