// Converting a model that has today's names already loses and changes no tensor: every family and head of
// tests/golden/families (tools/make_family_goldens.py).
#include <gtest/gtest.h>

#include "bertie/convert.h"
#include "bertie/model.h"
#include "io/safetensors.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

TEST(ConvertFamilies, EveryTensorStaysAsItIs) {
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "tests/golden/families")) {
    if (entry.path().filename().string().starts_with("marian")) continue;
    SCOPED_TRACE(entry.path().filename());
    const test::TempFolder folder;
    const fs::path to = folder.path() / "to";
    const Conversion converted = convert({.from = entry.path(), .to = to});
    EXPECT_TRUE(converted.dropped.empty()) << converted.dropped.front().name;
    const io::SafeTensors before = io::SafeTensors::open(entry.path() / "model.safetensors"),
                          after = io::SafeTensors::open(to / "model.safetensors");
    EXPECT_EQ(before.tensors().size(), after.tensors().size());
    for (const io::TensorInfo& t : before.tensors()) {
      const io::TensorInfo* same = after.find(t.name);
      if (!same) same = after.find("transformer." + t.name);  // GPT-2 without a head gets the prefix
      ASSERT_NE(same, nullptr) << t.name;
      EXPECT_EQ(same->shape, t.shape) << t.name;
      EXPECT_TRUE(std::equal(same->data.begin(), same->data.end(), t.data.begin(), t.data.end())) << t.name;
    }
    EXPECT_EQ(Model::load(to).parameters(), Model::load(entry.path()).parameters());
    ++models;
  }
  EXPECT_GE(models, 100u);
}

}  // namespace
}  // namespace bertie
