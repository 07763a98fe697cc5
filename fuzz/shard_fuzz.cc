// Any bytes as a shard of training data: an Error, or documents, sentences and tokens that lie inside the
// file. The first byte chooses what is put right before: bit 0 the checksum of the content, bit 1 the
// header's; without them no change would come further than that. tests/train/shard_test.cc runs it too.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bertie/error.h"
#include "io/checksum.h"
#include "refused.h"
#include "train/data/shard.h"

namespace bertie {

inline void repair_checksums(std::string& file, int which) {
  ShardHeader header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  if (which & 1) {
    std::string_view rest = std::string_view(file).substr(sizeof header);
    header.checksum = 0;
    const auto add = [&](uint64_t count) {
      const size_t bytes = size_t(std::min<uint64_t>(count, rest.size() / 4)) * 4;
      header.checksum = io::chain(header.checksum, io::checksum(rest.substr(0, bytes)));
      rest.remove_prefix(bytes);
    };
    add(header.documents + 1), add(header.sentences + 1);
    header.checksum = io::chain(header.checksum, io::checksum(rest));
  }
  if (which & 2)
    header.header_checksum = io::checksum(
        std::string_view(reinterpret_cast<const char*>(&header), offsetof(ShardHeader, header_checksum)));
  std::memcpy(file.data(), &header, sizeof header);
}

inline void check_shard(const Shard& shard) {
  shard.verify();
  const uint32_t documents = uint32_t(shard.documents()), sentences = shard.first_sentence(documents);
  std::vector<int32_t> ids;
  for (uint32_t s = 0; s < sentences; ++s) {
    const uint32_t begin = shard.first_token(s), end = shard.first_token(s + 1);
    if (begin > end || end > shard.header().tokens) std::abort();
    ids.resize(end - begin);
    shard.read(begin, ids.size(), ids.data());
    for (int32_t id : ids)
      if (id < 0 || uint64_t(id) >= shard.header().vocab_size) std::abort();
  }
  for (uint32_t d = 0; d < documents; ++d)
    if (shard.first_sentence(d) > shard.first_sentence(d + 1)) std::abort();
}

}  // namespace bertie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  if (size == 0) return kRefused;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  repair_checksums(bytes, data[0]);
  // A file in memory; Shard opens it by its name.
  const int file = memfd_create("shard", MFD_CLOEXEC);
  if (file < 0 || write(file, bytes.data(), bytes.size()) != ssize_t(bytes.size())) std::abort();
  int result = 0;
  try {
    check_shard(Shard("/proc/self/fd/" + std::to_string(file)));
  } catch (const Error&) {
    result = kRefused;
  }
  close(file);
  return result;
}
