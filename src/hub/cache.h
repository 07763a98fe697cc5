#pragma once
// The cache's layout, which is huggingface_hub's:
//
//   models--organization--model/blobs/ETAG                  the bytes; ETAG.incomplete while they come
//                               snapshots/COMMIT/FILE       a link to its blob
//                               refs/main                   the commit that main stands at
//   .locks/models--organization--model/ETAG.lock            held (flock) by whoever downloads the blob
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bertie/hub.h"

namespace bertie::hub {

struct ModelName {
  std::string repository;         // "organization/model" or "model"
  std::string revision = "main";  // after the @
};

// Nothing where it cannot be a model's name on the hub.
std::optional<ModelName> parse_model_name(const std::string& text);

std::filesystem::path repository_folder(const Hub& hub, const std::string& repository);
bool is_commit(std::string_view text);  // 40 hexadecimal digits

// The snapshot folder that a revision stands for: a commit, a branch or tag, or a commit's beginning.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& repository_folder,
                                                   const std::string& revision);

// The files of a snapshot that Bertie reads. Throws Error where one is missing, empty or cut off (weights are
// as long as their header says).
std::vector<std::string> whole_files(const std::filesystem::path& snapshot);

// What is missing from a snapshot, or nothing.
std::string missing_from(const std::filesystem::path& snapshot);

// The cached name that is spelled most like this one; empty where none is.
std::string nearest_cached(const Hub& hub, const std::string& repository);

}  // namespace bertie::hub
