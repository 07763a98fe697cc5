#pragma once
// Where a model's files are: a folder, a name in the hub's cache, or memory. Everything that loads takes a
// ModelFiles, and a path or a name becomes one by itself:
//
//   bertie::load("models/all-MiniLM-L6-v2");  // a folder
//   bertie::load("all-MiniLM-L6-v2");         // or, where there is none, a name in the cache (hub.h)
//   bertie::load(bertie::ModelFiles::in_memory({{"config.json", config},
//                                               {"model.safetensors", weights}, …}));
//
// A ModelFiles is constant, cheap to copy, and may be used by any number of threads.
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"

namespace bertie {

// A file's bytes, mapped and not copied.
struct FileBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};  // the bytes live as long as this; null: as long as the ModelFiles'

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

class BERTIE_API ModelFiles {
 public:
  class Source;  // of files by name; a further kind (an archive, say) derives from it: src/io/model_files.h

  // A folder; or one file of it, for what is loaded from one file: a config.json, a vocab.txt. Nothing is
  // read until something is loaded.
  ModelFiles(const std::filesystem::path& folder_or_file);
  // The name of a model that is part of the program (embedded_models in hub.h); else a folder or a file,
  // as above; or the name of one in the cache of Hub::from_environment(), as find_model resolves it: throws
  // Error where there is none.
  ModelFiles(const std::string& path_or_name);
  ModelFiles(const char* path_or_name);
  explicit ModelFiles(std::shared_ptr<const Source> source);

  // Files that are in memory already: name ("config.json", "1_Pooling/config.json") and bytes, which are not
  // copied and must outlive whatever is loaded from them. Errors call the whole `name`.
  static ModelFiles in_memory(std::map<std::string, std::span<const std::byte>, std::less<>> files,
                              std::string name = "memory");

  // What errors call them: the folder's path.
  std::string name() const;
  std::string name_of(std::string_view file) const;
  // The one file, where a path to a file was given; else empty.
  const std::string& only() const { return only_; }

  bool exists() const;  // false: a path at which there is nothing
  bool is_model()
      const;  // has what makes a folder a model: config.json, or sentence-transformers' modules.json
  bool has(std::string_view file) const;
  FileBytes read(std::string_view file) const;  // throws Error where there is no such file
  std::vector<std::string> list() const;        // every file, those in folders below too ("a/b"); sorted
  // The files of a folder below; "" is all of them.
  ModelFiles below(std::string_view folder) const;
  // Where they are on disk; nothing for memory.
  std::optional<std::filesystem::path> folder() const;

 private:
  std::shared_ptr<const Source> source_;
  std::string below_;  // "", or a folder with a / at its end
  std::string only_;
};

// Writes a file whole or not at all; one that had the name before stays until then. Throws Error.
BERTIE_API void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace bertie
