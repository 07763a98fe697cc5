#include "io/npy.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

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

TEST(Npy, DataFollowsTheHeaderInRowOrder) {
  std::ostringstream out;
  const std::vector<float> data{1.0f, -2.0f, 0.5f};
  write_npy(out, std::vector<size_t>{3, 1}, data);
  std::string file = out.str();
  ASSERT_EQ(file.size(), 128u + 12u);
  EXPECT_EQ(file.substr(128), std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", 12));
}

TEST(Npy, TheHeaderCanBeWrittenAgainWhenTheNumberOfRowsIsKnown) {
  EXPECT_EQ(npy_header(std::vector<size_t>{0, 384}).size(),
            npy_header(std::vector<size_t>{18446744073709551615u, 384}).size());
}

}  // namespace
}  // namespace bertie::io
