#include "train/loop/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "bertie/error.h"

namespace bertie {
namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    table[i] = c;
  }
  return table;
}();

// A CRC of bytes that hold CRCs is weak; so those in the file are rotated and moved.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

// A protocol buffer message, written from front to back into memory of fixed size.
class Message {
 public:
  void varint_field(uint32_t field, uint64_t value) { key(field, 0), varint(value); }
  void double_field(uint32_t field, double value) { key(field, 1), raw(&value, sizeof value); }
  void float_field(uint32_t field, float value) { key(field, 5), raw(&value, sizeof value); }
  void bytes_field(uint32_t field, std::string_view bytes) {
    key(field, 2), varint(bytes.size()), raw(bytes.data(), bytes.size());
  }
  std::string_view bytes() const { return {data_.data(), size_}; }

 private:
  void key(uint32_t field, uint32_t type) { varint(field << 3 | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(uint8_t(value) | 0x80);
    byte(uint8_t(value));
  }
  void byte(uint8_t value) { raw(&value, 1); }
  void raw(const void* from, size_t count) {
    if (count > data_.size() - size_) throw Error("an event for TensorBoard is too large");
    std::memcpy(data_.data() + size_, from, count);
    size_ += count;
  }
  std::array<char, 2048> data_;
  size_t size_ = 0;
};

// Numbers of fields, from tensorflow's event.proto and summary.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ uint8_t(c)) & 0xFF];
  return ~crc;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void write_fully(int file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      throw Error(
          fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(errno)),
          errno == ENOSPC ? "make room; the last checkpoint is whole, and --resume goes on from it" : "");
    if (count > 0) bytes.remove_prefix(size_t(count));
  }
}

EventFile::EventFile(const std::filesystem::path& folder, uint64_t first_step) {
  const double now = wall_clock();
  path_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}", now, getpid());
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw Error(fmt::format("cannot write {}: {}", path_.string(), std::generic_category().message(errno)));
  Message version;
  version.double_field(event::kWallTime, now);
  version.bytes_field(event::kFileVersion, "brain.Event:2");
  write_record(version.bytes());
  Message status, start;
  status.varint_field(kSessionStatus, kSessionStart);
  start.double_field(event::kWallTime, now);
  start.varint_field(event::kStep, first_step);
  start.bytes_field(event::kSessionLog, status.bytes());
  write_record(start.bytes());
}

EventFile::~EventFile() {
  if (file_ >= 0) close(file_);
}

void EventFile::write(uint64_t step, double wall_time, std::span<const Scalar> scalars) {
  Message summary, whole;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.bytes_field(kValueTag, scalar.tag);
    value.float_field(kValueSimple, float(scalar.value));
    summary.bytes_field(kSummaryValue, value.bytes());
  }
  whole.double_field(event::kWallTime, wall_time);
  whole.varint_field(event::kStep, step);
  whole.bytes_field(event::kSummary, summary.bytes());
  write_record(whole.bytes());
}

void EventFile::write_record(std::string_view event) {
  // In one piece, so that a process that is killed leaves whole records.
  std::array<char, 2048 + 16> record;
  const uint64_t length = event.size();
  const auto put = [&](size_t at, const auto& value) { std::memcpy(&record[at], &value, sizeof value); };
  put(0, length);
  put(8, masked(crc32c({record.data(), 8})));
  std::memcpy(&record[12], event.data(), event.size());
  put(12 + event.size(), masked(crc32c(event)));
  write_fully(file_, {record.data(), event.size() + 16}, path_);
}

}  // namespace bertie
