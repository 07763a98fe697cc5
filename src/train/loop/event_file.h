#pragma once
// A TensorBoard event file: numbers by step, for `tensorboard --logdir`.
//
// The format is TensorFlow's: records (length, masked CRC-32C of it, bytes, masked CRC-32C of them) that hold
// an Event message each; of protocol buffers it needs so little that it is written here by hand. A resumed
// run writes a new file, whose first event says from which step on older files are void.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace bertie {

struct Scalar {
  std::string tag;  // "train/loss"
  double value;
};

class EventFile {
 public:
  // Makes events.out.tfevents.TIME.PID in the folder. Throws Error. Events of `first_step` and later in other
  // files are void.
  EventFile(const std::filesystem::path& folder, uint64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Throws Error. Allocates only where an event is longer than all before it.
  void write(uint64_t step, double wall_time, std::span<const Scalar> scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view event);
  std::filesystem::path path_;
  int file_ = -1;
  std::string value_, summary_, event_, record_;  // of the event that is being written
};

// All bytes, or an Error that names the file.
void write_fully(int file, std::string_view bytes, const std::filesystem::path& path);

double wall_clock();  // seconds since 1970

}  // namespace bertie
