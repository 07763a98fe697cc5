#include "hub/files.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_file_names.h"

namespace bertie::hub {
namespace {

std::string in_folder(const std::string& folder, std::string_view file) {
  return folder.empty() ? std::string(file) : fmt::format("{}/{}", folder, file);
}

// The folders of a sentence-transformers model, the transformer's first; for others the top alone.
std::vector<std::string> module_folders(const Repository& repository) {
  std::vector<std::string> folders;
  if (repository.files.contains(std::string(io::kModulesFile))) {
    const std::string name = repository.name + "/modules.json";
    const nlohmann::json list = io::parse_json(repository.read("modules.json"), name);
    if (!list.is_array() || list.empty()) throw Error(fmt::format("{}: expected a list of modules", name));
    for (const nlohmann::json& module : list) {
      std::string path = io::get_string(module, "path", name, "");
      while (path.ends_with('/')) path.pop_back();
      if (!path.empty() && !is_safe_path(path))
        throw Error(fmt::format("{}: path {} leaves the model's folder", name, io::quote(path)));
      if (std::find(folders.begin(), folders.end(), path) == folders.end()) folders.push_back(path);
    }
  }
  if (folders.empty()) folders.emplace_back();
  return folders;
}

// What else weights come as, what keeps Bertie from reading it, and what to do instead.
struct OtherFormat {
  std::string_view ending, reason, way_out;
};
constexpr std::string_view kConvert =
    "with transformers in Python: AutoModel.from_pretrained(\"{0}\").save_pretrained(\"DIR\") and the same "
    "with "
    "AutoTokenizer, then load DIR; docs/models.md has more";
constexpr OtherFormat kOtherFormats[] = {
    {".bin", "a pickle, which can run any code when it is read", kConvert},
    {".pt", "a pickle, which can run any code when it is read", kConvert},
    {".pth", "a pickle, which can run any code when it is read", kConvert},
    {".h5", "TensorFlow's format", kConvert},
    {".msgpack", "Flax's format", kConvert},
    {".npz", "NumPy's format", "download the file, then convert it (bertie::convert)"},
    {".onnx", "a program of operations and not a model's named weights",
     "the model it was exported from, which mostly has model.safetensors; docs/models.md"},
};

[[noreturn]] void refuse(const Repository& repository, const std::string& folder) {
  for (const OtherFormat& format : kOtherFormats)
    for (const std::string& file : repository.files)
      if (file.ends_with(format.ending) && file.starts_with(folder))
        throw Error(fmt::format("{} has no safetensors: its weights are in {}, {}", repository.name,
                                io::quote(file), format.reason),
                    fmt::format(fmt::runtime(format.way_out), repository.name));
  throw Error(fmt::format("{} has no weights: neither {} nor {} is in {}", repository.name, io::kWeightsFile,
                          io::kWeightsIndexFile, folder.empty() ? "it" : io::quote(folder)),
              "a model with safetensors");
}

void add_shards(const Repository& repository, const std::string& folder, std::vector<std::string>& wanted) {
  const std::string index = in_folder(folder, io::kWeightsIndexFile), name = repository.name + "/" + index;
  const nlohmann::json json = io::parse_json(repository.read(index), name);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) throw Error(fmt::format("{}: there is no weight_map", name));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_safe_path(shard.get<std::string>()))
      throw Error(fmt::format("{}: the file of tensor {} is no file name", name, io::quote(tensor)));
    shards.insert(in_folder(folder, shard.get<std::string>()));
  }
  for (const std::string& shard : shards) {
    if (!repository.files.contains(shard))
      throw Error(fmt::format("{} names {}, which is missing", name, io::quote(shard)));
    wanted.push_back(shard);
  }
}

}  // namespace

bool is_safe_path(const std::string& path) {
  constexpr size_t kMost = 512;
  if (path.empty() || path.size() > kMost) return false;
  for (char c : path)
    if (uint8_t(c) < 0x20 || c == 0x7F || c == '\\') return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::vector<std::string> wanted_files(const Repository& repository) {
  const std::vector<std::string> folders = module_folders(repository);
  if (const std::string config = in_folder(folders[0], io::kConfigFile); !repository.files.contains(config))
    throw Error(fmt::format("{} is not a model that Bertie knows: it has no {}", repository.name, config),
                "a model for transformers or sentence-transformers");
  std::vector<std::string> wanted;
  const auto add_small = [&](const std::string& folder) {
    for (std::string_view file : io::small_model_files())
      if (repository.files.contains(in_folder(folder, file))) wanted.push_back(in_folder(folder, file));
  };
  for (const std::string& folder : folders) {
    add_small(folder);
    const auto has_other_weights = [&](const std::string& file) {
      return file.starts_with(folder + "/") && (file.ends_with(".bin") || file.ends_with(".h5"));
    };
    if (repository.files.contains(in_folder(folder, io::kWeightsFile))) {
      wanted.push_back(in_folder(folder, io::kWeightsFile));
    } else if (repository.files.contains(in_folder(folder, io::kWeightsIndexFile))) {
      wanted.push_back(in_folder(folder, io::kWeightsIndexFile));
      add_shards(repository, folder, wanted);
    } else if (folder == folders[0] ||  // a Dense module may have weights, a Pooling module has none
               (!folder.empty() &&
                std::any_of(repository.files.begin(), repository.files.end(), has_other_weights))) {
      refuse(repository, folder);
    }
  }
  if (std::find(folders.begin(), folders.end(), "") == folders.end()) add_small("");
  return wanted;
}

}  // namespace bertie::hub
