#include "io/model_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "io/file.h"
#include "io/google_folder.h"
#include "io/model_file_names.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

class Folder : public ModelFiles::Source {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}

  std::string name_of(std::string_view file) const override {
    return file.empty() ? path_.string() : (path_ / file).string();
  }
  bool exists() const override {
    std::error_code error;
    return path_.empty() || fs::exists(path_, error);  // empty: the folder we are in
  }
  bool has(std::string_view file) const override {
    std::error_code error;  // what cannot be looked at is not there
    return fs::is_regular_file(path_ / file, error);
  }
  FileBytes read(std::string_view file) const override {
    auto mapped = std::make_shared<const io::MappedFile>(path_ / file);
    const std::span<const std::byte> bytes = mapped->bytes();
    return {bytes, std::move(mapped)};
  }
  std::vector<std::string> list() const override {
    std::vector<std::string> files;
    std::error_code error;
    const auto skip = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator i(path_, skip, error), end; !error && i != end; i.increment(error))
      if (std::error_code ignored; fs::is_regular_file(i->path(), ignored))
        files.push_back(i->path().lexically_relative(path_).generic_string());
    std::sort(files.begin(), files.end());
    return files;
  }
  std::optional<fs::path> folder() const override { return path_; }

 private:
  fs::path path_;
};

class Memory : public ModelFiles::Source {
 public:
  using Files = std::map<std::string, std::span<const std::byte>, std::less<>>;
  Memory(Files files, std::string name) : files_(std::move(files)), name_(std::move(name)) {}

  std::string name_of(std::string_view file) const override {
    return file.empty() ? name_ : fmt::format("{}/{}", name_, file);
  }
  bool exists() const override { return true; }
  bool has(std::string_view file) const override { return files_.contains(file); }
  FileBytes read(std::string_view file) const override {
    const auto found = files_.find(file);
    if (found == files_.end())
      throw Error(fmt::format("cannot read {}: there is no such file", name_of(file)));
    return {found->second};
  }
  std::vector<std::string> list() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) names.push_back(name);
    return names;
  }

 private:
  Files files_;
  std::string name_;
};

}  // namespace

ModelFiles::ModelFiles(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    only_ = path.filename().string();
    source_ = io::in_transformers_layout(std::make_shared<Folder>(path.parent_path()));
  } else {
    source_ = io::in_transformers_layout(std::make_shared<Folder>(path));
  }
}

ModelFiles::ModelFiles(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

ModelFiles ModelFiles::in_memory(std::map<std::string, std::span<const std::byte>, std::less<>> files,
                                 std::string name) {
  return ModelFiles(std::make_shared<const Memory>(std::move(files), std::move(name)));
}

std::string ModelFiles::name() const {
  if (!only_.empty()) return name_of(only_);
  return source_->name_of(std::string_view(below_).substr(0, below_.size() - !below_.empty()));
}
std::string ModelFiles::name_of(std::string_view file) const {
  return source_->name_of(below_ + std::string(file));
}
bool ModelFiles::exists() const { return source_->exists(); }
bool ModelFiles::is_model() const { return has(io::kConfigFile) || has(io::kModulesFile); }
bool ModelFiles::has(std::string_view file) const { return source_->has(below_ + std::string(file)); }
FileBytes ModelFiles::read(std::string_view file) const { return source_->read(below_ + std::string(file)); }

std::vector<std::string> ModelFiles::list() const {
  std::vector<std::string> files = source_->list();
  std::erase_if(files, [&](const std::string& file) { return !file.starts_with(below_); });
  for (std::string& file : files) file.erase(0, below_.size());
  return files;
}

ModelFiles ModelFiles::below(std::string_view folder) const {
  ModelFiles files = *this;
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (folder.starts_with("./")) folder.remove_prefix(2);
  if (!folder.empty() && folder != ".") files.below_ += std::string(folder) + "/";
  return files;
}

std::optional<fs::path> ModelFiles::folder() const {
  std::optional<fs::path> path = source_->folder();
  if (path && !below_.empty()) *path /= below_.substr(0, below_.size() - 1);
  return path;
}

namespace io {

std::span<const std::string_view> small_model_files() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names{kConfigFile, kGenerationConfigFile};
    names.insert(names.end(), std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
    names.insert(names.end(), std::begin(kTokenizerCompanions), std::end(kTokenizerCompanions));
    names.insert(names.end(), {kModulesFile, kSentenceConfigFile, kSentenceTransformersFile});
    return names;
  }();
  return all;
}

bool is_small_model_file(std::string_view name) {
  const auto all = small_model_files();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace io
}  // namespace bertie
