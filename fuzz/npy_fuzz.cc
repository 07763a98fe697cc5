// Any bytes as an .npy file: an Error, or as many numbers as its shape says. It stands in an archive that is
// right, checksum included, so that nothing is lost on the way to its header. tests/io/npz_test.cc runs it
// too.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "bertie/error.h"
#include "check_npz.h"
#include "refused.h"

namespace bertie::io {

// A zip archive of one stored entry, "a.npy".
inline std::string archive_of(const uint8_t* content, size_t size) {
  const std::string name = "a.npy";
  std::string out;
  const auto put = [&](uint64_t value, size_t bytes) {
    out.append(reinterpret_cast<const char*>(&value), bytes);
  };
  const auto entry = [&] {            // what the entry and its line in the directory have in common
    put(0, 2), put(0, 2), put(0, 4);  // flags, method, time
    put(crc32(crc32(0, nullptr, 0), content, uInt(size)), 4);
    put(size, 4), put(size, 4), put(name.size(), 2), put(0, 2);
  };
  put(0x04034b50, 4), put(20, 2), entry();
  out += name;
  out.append(reinterpret_cast<const char*>(content), size);
  const size_t directory = out.size();
  put(0x02014b50, 4), put(20, 2), put(20, 2), entry();
  put(0, 2), put(0, 2), put(0, 2), put(0, 4), put(0, 4);
  out += name;
  const size_t length = out.size() - directory;
  put(0x06054b50, 4), put(0, 4), put(1, 2), put(1, 2), put(length, 4), put(directory, 4), put(0, 2);
  return out;
}

}  // namespace bertie::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie::io;
  const std::string file = archive_of(data, size);
  try {
    check_npz(std::as_bytes(std::span(file)));
  } catch (const bertie::Error&) {
    return kRefused;
  }
  return 0;
}
