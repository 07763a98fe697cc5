#include "train/loop/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "bertie/error.h"
#include "io/crc32c.h"

namespace bertie {
namespace {

constexpr size_t kUsualBytes = 4096;  // more than events have

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Appends the fields of a protocol buffer message.
void varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += char(uint8_t(value) | 0x80);
  to += char(value);
}
enum class WireType : uint32_t { kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5 };
void key(std::string& to, uint32_t field, WireType type) { varint(to, field << 3 | uint32_t(type)); }
void varint_field(std::string& to, uint32_t field, uint64_t value) {
  key(to, field, WireType::kVarint), varint(to, value);
}
void double_field(std::string& to, uint32_t field, double value) {
  key(to, field, WireType::kDouble), append(to, value);
}
void float_field(std::string& to, uint32_t field, float value) {
  key(to, field, WireType::kFloat), append(to, value);
}
void bytes_field(std::string& to, uint32_t field, std::string_view bytes) {
  key(to, field, WireType::kBytes), varint(to, bytes.size()), to.append(bytes);
}

// Numbers of fields, from tensorflow's event.proto and summary.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void write_fully(int file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      throw Error(
          fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(errno)),
          errno == ENOSPC ? "make room; the last checkpoint is whole, and `resume` continues from it" : "");
    if (count > 0) bytes.remove_prefix(size_t(count));
  }
}

EventFile::EventFile(const std::filesystem::path& folder, uint64_t first_step) {
  const double now = wall_clock();
  path_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}", now, getpid());
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw Error(fmt::format("cannot write {}: {}", path_.string(), std::generic_category().message(errno)));
  for (std::string* buffer : {&value_, &summary_, &event_, &record_}) buffer->reserve(kUsualBytes);
  double_field(event_, event::kWallTime, now);
  bytes_field(event_, event::kFileVersion, "brain.Event:2");
  write_record(event_);
  event_.clear();
  std::string status;
  varint_field(status, kSessionStatus, kSessionStart);
  double_field(event_, event::kWallTime, now);
  varint_field(event_, event::kStep, first_step);
  bytes_field(event_, event::kSessionLog, status);
  write_record(event_);
}

EventFile::~EventFile() {
  if (file_ >= 0) close(file_);
}

void EventFile::write(uint64_t step, double wall_time, std::span<const Scalar> scalars) {
  summary_.clear(), event_.clear();
  for (const Scalar& scalar : scalars) {
    value_.clear();
    bytes_field(value_, kValueTag, scalar.tag);
    float_field(value_, kValueSimple, float(scalar.value));
    bytes_field(summary_, kSummaryValue, value_);
  }
  double_field(event_, event::kWallTime, wall_time);
  varint_field(event_, event::kStep, step);
  bytes_field(event_, event::kSummary, summary_);
  write_record(event_);
}

// In one piece, so that a process that is killed leaves whole records.
void EventFile::write_record(std::string_view event) {
  record_.clear();
  append(record_, uint64_t{event.size()});
  append(record_, io::masked_crc32c(io::crc32c(record_)));
  record_.append(event);
  append(record_, io::masked_crc32c(io::crc32c(event)));
  write_fully(file_, record_, path_);
}

}  // namespace bertie
