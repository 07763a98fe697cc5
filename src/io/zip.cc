#include "io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace bertie::io {
namespace {

// Signatures and sizes, as the format's specification (APPNOTE.TXT) has them.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr uint32_t kIn64 = 0xFFFFFFFF;       // "see the zip64 field"
constexpr uint64_t kMostFromDeflate = 1032;  // bytes that one packed byte can become

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  [[noreturn]] void fail(const std::string& problem, const std::string& hint = {}) const {
    throw Error(fmt::format("{}: {}", name_, problem), hint);
  }

  // `size` bytes at `at`, or an Error.
  std::span<const std::byte> part(uint64_t at, uint64_t size, const char* what) const {
    if (at > bytes_.size() || size > bytes_.size() - at)
      fail(fmt::format("truncated or damaged: {} at byte {} ends after the file, which has {} bytes", what,
                       at, bytes_.size()),
           "make or download it again");
    return bytes_.subspan(at, size);
  }

  size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
};

template <class T>
T get(std::span<const std::byte> record, size_t at) {
  T value;
  std::memcpy(&value, record.data() + at, sizeof value);
  return value;
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Directory {
  uint64_t at = 0, size = 0, count = 0;
};

Directory find_directory(const Archive& archive) {
  constexpr size_t kMaxComment = 0xFFFF;
  if (archive.size() < kEndSize)
    archive.fail(fmt::format("not an .npz file: it has {} bytes, too few for a zip archive", archive.size()));
  const size_t earliest = archive.size() - std::min(archive.size(), kEndSize + kMaxComment);
  for (size_t at = archive.size() - kEndSize + 1; at-- > earliest;) {
    const auto end = archive.part(at, kEndSize, "its end record");
    if (get<uint32_t>(end, 0) != kEnd || get<uint16_t>(end, 20) != archive.size() - at - kEndSize) continue;
    Directory d{
        .at = get<uint32_t>(end, 16), .size = get<uint32_t>(end, 12), .count = get<uint16_t>(end, 10)};
    if (get<uint16_t>(end, 4) != 0 || get<uint16_t>(end, 6) != 0)
      archive.fail("a zip archive in several parts, which NumPy does not write");
    uint64_t after = at;
    if (at >= kLocator64Size) {
      const auto locator = archive.part(at - kLocator64Size, kLocator64Size, "its zip64 locator");
      if (get<uint32_t>(locator, 0) == kLocator64) {
        const auto where = get<uint64_t>(locator, 8);
        const auto end64 = archive.part(where, kEnd64Size, "its zip64 end record");
        if (get<uint32_t>(end64, 0) != kEnd64)
          archive.fail("damaged: no zip64 end record where there should be one");
        d = {.at = get<uint64_t>(end64, 48),
             .size = get<uint64_t>(end64, 40),
             .count = get<uint64_t>(end64, 32)};
        after = where;
      }
    }
    archive.part(d.at, d.size, "its directory");
    if (d.at + d.size > after) archive.fail("damaged: its directory and its end record overlap");
    return d;
  }
  archive.fail("not an .npz file: no end of a zip archive in it", "make or download it again");
}

// Sizes and place that do not fit into 32 bits are in an extra field, those that are needed, in this order.
void read_zip64(const Archive& archive, std::span<const std::byte> extra, uint64_t& bytes, uint64_t& packed,
                uint64_t& local) {
  uint64_t* fields[] = {&bytes, &packed, &local};
  if (std::none_of(std::begin(fields), std::end(fields), [](uint64_t* f) { return *f == kIn64; })) return;
  while (extra.size() >= 4) {
    const size_t id = get<uint16_t>(extra, 0), size = get<uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    auto field = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    if (id != 1) continue;
    for (uint64_t* f : fields) {
      if (*f != kIn64) continue;
      if (field.size() < 8) archive.fail("damaged: a zip64 field is too short");
      *f = get<uint64_t>(field, 0);
      field = field.subspan(8);
    }
    return;
  }
  archive.fail("damaged: a zip64 field is missing");
}

}  // namespace

std::vector<ZipEntry> zip_entries(std::span<const std::byte> bytes, const std::string& name) {
  const Archive archive(bytes, name);
  const Directory directory = find_directory(archive);
  if (directory.count > kMaxTensors)
    archive.fail(fmt::format("{} entries, more than the limit of {}", directory.count, kMaxTensors));
  struct Range {
    uint64_t begin, end;
  };
  std::vector<ZipEntry> entries;
  std::vector<Range> ranges;
  uint64_t at = directory.at;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const auto record = archive.part(at, kCentralSize, "a directory entry");
    if (get<uint32_t>(record, 0) != kCentral)
      archive.fail(fmt::format("damaged: no directory entry at byte {}", at));
    const size_t name_size = get<uint16_t>(record, 28), extra_size = get<uint16_t>(record, 30);
    const uint64_t record_size = kCentralSize + name_size + extra_size + get<uint16_t>(record, 32);
    if (record_size > directory.at + directory.size - at) archive.fail("damaged: its directory is too short");
    const auto names = archive.part(at + kCentralSize, name_size, "a name");
    ZipEntry entry{.name = text(names),
                   .deflated = get<uint16_t>(record, 10) == 8,
                   .bytes = get<uint32_t>(record, 24),
                   .crc = get<uint32_t>(record, 16)};
    const auto wrong = [&](const std::string& problem) {
      archive.fail(fmt::format("tensor {}: {}", quote(entry.name), problem));
    };
    if (name_size > kMaxTensorName) wrong(fmt::format("its name has more than {} bytes", kMaxTensorName));
    uint64_t packed = get<uint32_t>(record, 20), local = get<uint32_t>(record, 42);
    read_zip64(archive, archive.part(at + kCentralSize + name_size, extra_size, "an extra field"),
               entry.bytes, packed, local);
    if (get<uint16_t>(record, 8) & 1) wrong("it is encrypted");
    if (const int method = get<uint16_t>(record, 10); method != 0 && method != 8)
      wrong(fmt::format("packed by method {}; only stored and deflated are read", method));
    if (!entry.deflated && packed != entry.bytes)
      wrong(fmt::format("stored, but its sizes {} and {} differ", packed, entry.bytes));
    if (entry.deflated && entry.bytes / kMostFromDeflate > packed)
      wrong(fmt::format("{} bytes cannot be deflated to {}", entry.bytes, packed));
    const auto header = archive.part(local, kLocalSize, "an entry");
    if (get<uint32_t>(header, 0) != kLocal)
      wrong(fmt::format("no entry at byte {}, where it should be", local));
    const uint64_t begin = local + kLocalSize + get<uint16_t>(header, 26) + get<uint16_t>(header, 28);
    if (text(archive.part(local + kLocalSize, get<uint16_t>(header, 26), "a name")) != entry.name)
      wrong("its entry has another name");
    entry.packed = archive.part(begin, packed, "an entry");
    if (begin + packed > directory.at) wrong("it overlaps the directory");
    ranges.push_back({local, begin + packed});
    entries.push_back(std::move(entry));
    at += record_size;
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end)
      archive.fail(fmt::format("damaged: entries overlap at byte {}", ranges[i].begin));
  return entries;
}

void unzip(const ZipEntry& entry, std::span<std::byte> out, const std::string& archive) {
  const auto fail = [&](const std::string& problem) {
    throw Error(fmt::format("{}: tensor {}: {}", archive, quote(entry.name), problem),
                "make or download it again");
  };
  const bool whole = out.size() == entry.bytes;
  if (out.size() > entry.bytes)
    fail(fmt::format("it has {} bytes, fewer than the {} it needs", entry.bytes, out.size()));
  if (!entry.deflated) {
    if (!out.empty()) std::memcpy(out.data(), entry.packed.data(), out.size());
  } else {
    struct Stream : z_stream {
      ~Stream() { inflateEnd(this); }
    } stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    auto in = entry.packed;
    auto rest = out;
    std::byte beyond{};  // one byte more than there should be
    int state = Z_OK;
    while (state == Z_OK && (whole || !rest.empty())) {
      constexpr size_t kMost = std::numeric_limits<uInt>::max();
      const size_t offered = std::min(in.size(), kMost);
      const std::span<std::byte> room =
          rest.empty() ? std::span(&beyond, 1) : rest.first(std::min(rest.size(), kMost));
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
      stream.avail_in = uInt(offered);
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = uInt(room.size());
      state = inflate(&stream, Z_NO_FLUSH);
      in = in.subspan(offered - stream.avail_in);
      const size_t made = room.size() - stream.avail_out;
      if (made > 0 && rest.empty()) fail("more comes out of it than its size says");
      rest = rest.subspan(made);
    }
    if (state != Z_OK && state != Z_STREAM_END) fail("its deflated data is damaged");
    if (!rest.empty()) fail("less comes out of it than its size says");
    if (whole && !in.empty()) fail("there is more after the end of its data");
  }
  if (!whole) return;
  const auto crc = crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(out.data()), out.size());
  if (crc != entry.crc) fail("its checksum is wrong: the file is damaged");
}

}  // namespace bertie::io
