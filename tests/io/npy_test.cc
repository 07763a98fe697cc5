#include "io/npy.h"

#include <gtest/gtest.h>

#include <vector>

#include "bertie/error.h"
#include "bertie/npy.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

struct Golden {
  std::vector<size_t> shape;
  std::string text;  // numpy 2.4's header without the padding
  size_t bytes;      // with it
};

// numpy.lib.format.write_array_header_1_0(file, {'descr': '<f4', 'fortran_order': False, 'shape': shape})
const Golden kGoldens[] = {
    {{}, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 128},
    {{0}, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", 128},
    {{3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 128},
    {{123456, 384}, "{'descr': '<f4', 'fortran_order': False, 'shape': (123456, 384), }", 128},
    {{7, 0, 384}, "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0, 384), }", 128},
    {{7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), }",
     128},
    {{7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), }",
     128},
    {{7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), }",
     192},
};

TEST(Npy, HeadersAreNumpys) {
  for (const Golden& golden : kGoldens) {
    std::string expected("\x93NUMPY\x01\x00", 8);
    expected += char((golden.bytes - 10) & 0xFF);
    expected += char((golden.bytes - 10) >> 8);
    expected += golden.text + std::string(golden.bytes - 10 - golden.text.size() - 1, ' ') + '\n';
    EXPECT_EQ(npy_header(golden.shape), expected);
  }
}

TEST(Npy, OnlyWholeRowsAreTaken) {
  const test::TempFolder folder;
  NpyWriter file(folder.path() / "rows.npy", {2});
  file.add(std::vector<float>{1, -2, 0.5f, 4});
  EXPECT_THROW(file.add(std::vector<float>{1, 2, 3}), Error);
  EXPECT_THROW(NpyWriter(folder.path() / "none.npy", {2, 0}), Error);
  file.commit();
  const MappedFile written(folder.path() / "rows.npy");
  EXPECT_EQ(written.text().substr(128),
            std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f\x00\x00\x80\x40", 16));
}

TEST(Npy, TheHeaderCanBeWrittenAgainWhenTheNumberOfRowsIsKnown) {
  EXPECT_EQ(npy_header(std::vector<size_t>{0, 384}).size(),
            npy_header(std::vector<size_t>{18446744073709551615u, 384}).size());
}

}  // namespace
}  // namespace bertie::io
