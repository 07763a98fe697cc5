#include "tasks/new_folder.h"

#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/quote.h"

namespace bertie {
namespace fs = std::filesystem;

namespace {

// What in a folder convert would not have written itself, the first by name, or nothing.
std::string strange_entry(const fs::path& folder) {
  const std::vector<std::string> modules = io::module_folders(folder), read = io::files_read(folder);
  std::set<std::string> strange;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string path = i->path().lexically_relative(folder).generic_string();
    bool ours = false;  // as links and devices are not
    if (!i->is_symlink() && i->is_directory()) {
      ours = std::any_of(modules.begin(), modules.end(),
                         [&](const std::string& m) { return (m + "/").starts_with(path + "/"); });
      if (!ours) i.disable_recursion_pending();  // it may be large
    } else if (!i->is_symlink() && i->is_regular_file()) {
      ours = std::find(read.begin(), read.end(), path) != read.end();
    }
    if (!ours) strange.insert(path);
  }
  if (error) throw Error(fmt::format("cannot look into {}: {}", folder.string(), error.message()));
  return strange.empty() ? "" : *strange.begin();
}

}  // namespace

NewFolder::NewFolder(const fs::path& to, bool force) {
  std::error_code error;
  to_ = fs::weakly_canonical(fs::absolute(to), error);  // what a link leads to is written, not the link
  if (error) fail(error.value());
  if (to_.filename().empty()) to_ = to_.parent_path();  // "folder/"
  if (fs::is_symlink(to_, error))
    throw Error(fmt::format("cannot write {}: it is a link to nothing", to.string()), "another name");
  if (fs::exists(to_, error)) {
    if (!fs::is_directory(to_, error))
      throw Error(fmt::format("cannot write {}: it is not a folder", to.string()));
    replaces_ = !fs::is_empty(to_, error);
    if (replaces_ && !force)
      throw Error(fmt::format("{} is there already, and not empty", to.string()),
                  "another name, or `force` to replace it");
    if (replaces_) check_replaceable();
  }
  io::Beside made = io::make_beside(to_, [](const char* name) { return mkdir(name, 0777); });
  if (made.made < 0) fail(errno);
  temporary_ = std::move(made.name);
}
NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::write(const fs::path& name, std::string_view text) const {
  fs::create_directories((temporary_ / name).parent_path());
  io::AtomicFile file(temporary_ / name);
  file.write(text);
  file.commit();
}

void NewFolder::take_others(const ModelFiles& from, const std::string& below, std::string_view but) const {
  for (const std::string& file : io::files_read(from)) {
    const fs::path name = file;
    if (!io::is_weights_of(below, file) && (name.parent_path() != below || name.filename() != but))
      write(name, from.read(file).text());
  }
}

void NewFolder::commit() {
  io::sync_folder(temporary_);
  if (replaces_) {
    check_replaceable();  // somebody may have put something there meanwhile
    // The old folder is then the temporary.
    if (const int error = io::exchange_folders(temporary_, to_)) fail(error);
  } else {
    if (rename(temporary_.c_str(), to_.c_str()) != 0) fail(errno);
    temporary_.clear();
  }
  io::sync_folder(to_.parent_path());
}

// `force` is for models, not for somebody's home: everything in the folder is lost.
void NewFolder::check_replaceable() const {
  std::error_code error;
  const fs::path model = to_ / io::transformer_folder(to_);
  for (std::string_view needed : {io::kConfigFile, io::kWeightsFile})
    if (!fs::exists(model / needed, error))
      throw Error(fmt::format("{} is not a model's folder: it has no {}", to_.string(), needed),
                  "another name; `force` replaces models only");
  if (const std::string strange = strange_entry(to_); !strange.empty())
    throw Error(fmt::format("{} has {} in it, which is no part of a model; `force` would "
                            "delete it",
                            to_.string(), io::quote(strange)),
                "another name, or move it elsewhere");
}
void NewFolder::fail(int error) const {
  throw Error(fmt::format("cannot write {}: {}", to_.string(), std::generic_category().message(error)),
              error == ENOENT ? fmt::format("mkdir -p {}", to_.parent_path().string()) : "");
}

}  // namespace bertie
