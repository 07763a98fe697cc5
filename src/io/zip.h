#pragma once
// The directory of a zip archive, and its entries' content; for .npz files. See npz.h for what is checked.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bertie::io {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> packed = {};
  bool deflated = false;
  uint64_t bytes = 0;  // unpacked
  uint32_t crc = 0;
};

// In the directory's order. `name` is what errors call the archive.
std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive, const std::string& name);

// The first out.size() bytes of the content. Where that is all of it, its end and checksum are checked too.
void unzip(const ZipEntry& entry, std::span<std::byte> out, const std::string& archive);

}  // namespace bertie::io
