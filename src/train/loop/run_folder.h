#pragma once
// A run's folder, and the checkpoints in it:
//
//   run/step-000500/     config.json, model.safetensors and the tokenizer's files: a whole model
//                        optimizer.safetensors   the moments, two flat tensors
//                        state.json              counters, where the data was, and the SHA-256 of the others
//                                                and of itself
//   run/last, run/best   links to checkpoints
//   run/damaged-step-…   checkpoints that were not whole when a run was resumed from an older one
//   run/.step-….tmp.…    what is being written or removed
//   run/log.jsonl, run/events.out.tfevents.*     train/loop/log.h
//
// A checkpoint is written under another name and gets its own when all of it is on the disk, so one that has
// the name step-… is whole, unless the disk damaged it; then its checksums do not match. Older ones are
// removed only after that. Whatever kills the process, the newest whole checkpoint is there.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/folder_lock.h"

namespace bertie {

class RunFolder {
 public:
  // Makes the folder if need be. Throws Error where that cannot be done.
  explicit RunFolder(std::filesystem::path path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Keeps other processes from training here as long as this object lives. Throws Error where one does.
  void lock();

  const std::filesystem::path& path() const { return path_; }
  static std::string name_of(uint64_t step);  // "step-000500"
  std::vector<uint64_t> steps() const;        // of checkpoints, from the oldest

  struct Found {
    uint64_t step = 0;
    std::filesystem::path folder;
    std::string state;  // the text of state.json
  };
  // The newest checkpoint that is whole; each newer one that is not is reported to `damaged`, with the
  // reason. Nothing where there are no checkpoints at all. Throws Error where none is whole, and for one that
  // may be whole but cannot be read: of a newer Bertie, or another user's.
  std::optional<Found> newest(const std::function<void(const std::string&)>& damaged) const;
  // A run resumes from `found`: newer ones are moved aside under other names (each is told to `moved`), so
  // that they are not in the way of new ones, and the links are corrected: to `found`, and to `best`, a step
  // (0: none).
  void resume_from(const Found& found, uint64_t best,
                   const std::function<void(const std::string&)>& moved) const;

  // write(folder) makes all files but state.json, which is `state`, a JSON object, with the checksums added.
  // Then it is the last checkpoint, and the best one if `best`. Throws Error; then nothing has changed.
  std::filesystem::path save(uint64_t step, const std::function<void(const std::filesystem::path&)>& write,
                             const std::string& state, bool best);
  // Removes all but the `keep` newest, those in `spared`, and those that links point to.
  void prune(size_t keep, std::vector<uint64_t> spared) const;
  // What killed processes left behind.
  void remove_leftovers() const;

 private:
  std::optional<uint64_t> link_target(const char* name) const;
  void point(const char* name, const std::string& to) const;

  std::filesystem::path path_;
  std::optional<io::FolderLock> lock_;
};

// A file's SHA-256, in hexadecimal digits.
std::string sha256_of(const std::filesystem::path& file);

}  // namespace bertie
