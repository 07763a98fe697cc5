#include "hub/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "core/checked.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/safetensors.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_true(std::string value) {
  for (char& c : value) c = char(c >= 'a' && c <= 'z' ? c - 32 : c);
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// ~ at the start, then $NAME and ${NAME}; what is not set stays as it is written, as in Python.
fs::path expand(std::string text) {
  if (text == "~" || text.starts_with("~/")) text = variable("HOME") + text.substr(1);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool braces = text.compare(i, 2, "${") == 0;
    const size_t begin = i + 1 + braces;
    size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string name = text[i] == '$' ? text.substr(begin, end - begin) : "";
    const bool whole = !name.empty() && (!braces || (end < text.size() && text[end] == '}'));
    const char* value = whole ? std::getenv(name.c_str()) : nullptr;
    if (value) {
      out += value;
      i = end + braces;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// A token on one line, without what an editor may have put around it.
std::string clean(std::string token) {
  std::erase_if(token, [](char c) { return c == '\r' || c == '\n'; });
  const size_t begin = std::min(token.find_first_not_of(" \t"), token.size());
  return token.substr(begin, token.find_last_not_of(" \t") + 1 - begin);
}

// A small file's text; empty where it cannot be read.
std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return clean(line);
}

// Entries of a folder that may not be there.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    all.push_back(i->path());
  std::sort(all.begin(), all.end());
  return all;
}

// Every file below a folder, by its relative name; links count as what they lead to, broken ones not at all.
std::map<std::string, uint64_t> files_below(const fs::path& folder) {
  std::map<std::string, uint64_t> files;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code ignored;
    if (!fs::is_regular_file(i->path(), ignored)) continue;
    const uint64_t size = fs::file_size(i->path(), ignored);
    if (!ignored) files[i->path().lexically_relative(folder).string()] = size;
  }
  return files;
}

std::string repository_of(const fs::path& folder) {
  const std::string name = folder.filename().string().substr(kPrefix.size());
  const size_t dashes = name.find("--");
  if (dashes == name.npos) return name;
  return fmt::format("{}/{}", name.substr(0, dashes), name.substr(dashes + 2));
}

std::vector<fs::path> repository_folders(const Hub& hub) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : entries(hub.cache))
    if (folder.filename().string().starts_with(kPrefix)) folders.push_back(folder);
  return folders;
}

std::string read_model_type(const ModelFiles& snapshot) {
  const ModelFiles files = snapshot.below(io::transformer_folder(snapshot));
  if (!files.has(io::kConfigFile)) return {};
  try {
    const std::string name = files.name_of(io::kConfigFile);
    return io::get_string(io::parse_json(files.read(io::kConfigFile).text(), name), "model_type", name, "");
  } catch (const Error&) {
    return {};  // `problem` is the place for what is wrong
  }
}

}  // namespace

namespace hub {

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::optional<ModelName> parse_model_name(const std::string& text) {
  ModelName name{.repository = text.substr(0, text.find('@'))};
  if (const size_t at = text.find('@'); at != text.npos) name.revision = text.substr(at + 1);
  if (!io::is_safe_path(name.revision) || !io::is_safe_path(name.repository)) return {};
  const std::string& repository = name.repository;
  if (std::count(repository.begin(), repository.end(), '/') > 1) return {};
  for (const char* never : {"--", ".."})
    if (repository.find(never) != repository.npos) return {};
  for (size_t begin = 0; begin <= repository.size();) {
    const size_t end = std::min(repository.find('/', begin), repository.size());
    if (end - begin > 96 || !is_word(repository[begin]) || !is_word(repository[end - 1])) return {};
    begin = end + 1;
  }
  for (char c : repository)
    if (!is_word(c) && c != '-' && c != '.' && c != '/') return {};
  if (repository.ends_with(".git")) return {};
  return name;
}

fs::path repository_folder(const Hub& hub, const std::string& repository) {
  const size_t slash = repository.find('/');
  if (slash == repository.npos) return hub.cache / fmt::format("{}{}", kPrefix, repository);
  return hub.cache /
         fmt::format("{}{}--{}", kPrefix, repository.substr(0, slash), repository.substr(slash + 1));
}

std::optional<fs::path> find_snapshot(const fs::path& folder, const std::string& revision) {
  std::error_code error;
  const std::string commit = is_commit(revision) ? revision : read_line(folder / "refs" / revision);
  if (const fs::path snapshot = folder / "snapshots" / commit;
      io::is_safe_path(commit) && fs::is_directory(snapshot, error))
    return snapshot;
  constexpr size_t kShortest = 6;
  std::vector<fs::path> alike;
  for (const fs::path& snapshot : entries(folder / "snapshots"))
    if (revision.size() >= kShortest && snapshot.filename().string().starts_with(revision))
      alike.push_back(snapshot);
  if (alike.size() == 1) return alike[0];
  return {};
}

std::vector<std::string> whole_files(const fs::path& snapshot) {
  const ModelFiles files(snapshot);
  const std::vector<std::string> wanted = io::wanted_files(files);
  for (const std::string& file : wanted) {
    if (files.read(file).bytes.empty()) throw Error(fmt::format("{} is empty", files.name_of(file)));
    if (file.ends_with(".safetensors")) io::SafeTensors::open(snapshot / file);
  }
  return wanted;
}

std::string missing_from(const fs::path& snapshot) {
  try {
    whole_files(snapshot);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string nearest_cached(const Hub& hub, const std::string& repository) {
  const bool with_organization = repository.find('/') != repository.npos;
  std::vector<std::string> names;
  for (const fs::path& folder : repository_folders(hub)) names.push_back(repository_of(folder));
  std::vector<std::string_view> alike;  // in the form in which the name was given
  for (std::string_view name : names)
    alike.push_back(with_organization ? name : name.substr(name.find('/') + 1));
  const std::string_view near = nearest(repository, alike);
  if (near.empty() || near == repository) return {};
  return names[size_t(std::find(alike.begin(), alike.end(), near) - alike.begin())];
}

}  // namespace hub

Hub Hub::from_environment() {
  const auto first_of = [](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const std::string value = variable(name); !value.empty()) return value;
    return std::string();
  };
  Hub hub;
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) hub.endpoint = endpoint;
  while (hub.endpoint.ends_with('/')) hub.endpoint.pop_back();

  fs::path home = expand(variable("HF_HOME"));
  if (home.empty()) {
    const std::string caches = variable("XDG_CACHE_HOME");
    home = expand(caches.empty() ? "~/.cache" : caches) / "huggingface";
  }
  hub.cache = expand(first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}));
  if (hub.cache.empty()) hub.cache = home / "hub";

  hub.token = clean(first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (hub.token.empty() && !is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
    const fs::path file = expand(variable("HF_TOKEN_PATH"));
    hub.token = read_line(file.empty() ? home / "token" : file);
  }
  hub.offline = is_true(first_of({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  if (unsigned seconds = 0; parse_number(variable("HF_HUB_DOWNLOAD_TIMEOUT"), seconds) && seconds > 0)
    hub.timeout = std::min(seconds, 3600u);
  return hub;
}

fs::path find_model(const std::string& text, const Hub& hub) {
  std::error_code error;
  if (fs::is_directory(text, error)) return text;
  constexpr const char* kFolder =
      "a folder with config.json, model.safetensors and tokenizer.json or vocab.txt, or a model's name";
  if (fs::exists(text, error))
    throw Error(fmt::format("there is no model {}: it is not a folder", io::quote(text)), kFolder);
  const std::optional<hub::ModelName> name = hub::parse_model_name(text);
  if (!name) throw Error(fmt::format("there is no model {}: no such folder", io::quote(text)), kFolder);

  if (const auto found = hub::find_snapshot(hub::repository_folder(hub, name->repository), name->revision))
    return *found;
  std::vector<std::string> repositories;
  std::vector<fs::path> same;  // the model's name without its organization is enough where only one has it
  for (const fs::path& folder : repository_folders(hub)) {
    const std::string repository = repository_of(folder);
    if (repository == name->repository && !entries(folder / "snapshots").empty())
      throw Error(fmt::format("the model {} is in {}, but not its revision {}", name->repository,
                              hub.cache.string(), io::quote(name->revision)),
                  fmt::format("`pull` {}@{}", name->repository, name->revision));
    if (!repository.ends_with("/" + name->repository)) continue;
    if (const auto found = hub::find_snapshot(folder, name->revision)) {
      repositories.push_back(repository);
      same.push_back(*found);
    }
  }
  if (same.size() == 1) return same[0];
  if (same.size() > 1)
    throw Error(fmt::format("there are {} models {} in {}: {}", same.size(), name->repository,
                            hub.cache.string(), fmt::join(repositories, ", ")),
                repositories[0]);
  const std::string near = hub::nearest_cached(hub, name->repository);
  throw Error(
      fmt::format("there is no model {}: neither a folder nor in {}", io::quote(text), hub.cache.string()),
      near.empty() ? fmt::format("`pull` {}, or give a folder", text)
                   : fmt::format("{}, which is here; or `pull` {}", near, text));
}

std::vector<CachedModel> cached_models(const Hub& hub) {
  std::vector<CachedModel> models;
  for (const fs::path& folder : repository_folders(hub)) {
    const std::string name = repository_of(folder);
    std::map<std::string, std::vector<std::string>> refs;  // by commit
    for (const auto& [ref, size] : files_below(folder / "refs"))
      refs[read_line(folder / "refs" / ref)].push_back(ref);
    const size_t before = models.size();
    for (const fs::path& snapshot : entries(folder / "snapshots")) {
      CachedModel model{.name = name, .commit = snapshot.filename().string(), .path = snapshot};
      model.refs = refs[model.commit];
      for (const auto& [file, size] : files_below(snapshot)) model.bytes += size;
      model.model_type = read_model_type(snapshot);
      model.problem = hub::missing_from(snapshot);
      models.push_back(std::move(model));
    }
    if (models.size() > before) continue;
    CachedModel begun{.name = name, .path = folder, .problem = "the download has only begun"};
    for (const auto& [file, size] : files_below(folder / "blobs")) begun.bytes += size;
    if (begun.bytes > 0) models.push_back(std::move(begun));
  }
  return models;
}

}  // namespace bertie
