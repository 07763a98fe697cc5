#include "io/model_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "io/tensorflow_checkpoint.h"

namespace bertie::io {
namespace {

std::string in_folder(const std::string& folder, std::string_view file) {
  return folder.empty() ? std::string(file) : fmt::format("{}/{}", folder, file);
}

constexpr std::string_view kPickle = "a pickle of more than tensors, which can run any code when it is read";
constexpr std::string_view kToSafetensors =
    "in Python: import torch; from safetensors.torch import save_file; "
    "save_file({k: v.contiguous().clone() for k, v in torch.load(\"FILE\", weights_only=True).items()}, "
    "\"model.safetensors\")";
constexpr std::string_view kFromTensorFlow =
    "in Python: import numpy, tensorflow as tf; r = tf.train.load_checkpoint(\"FILE\"); "
    "numpy.savez(\"model.npz\", **{k: r.get_tensor(k) for k in r.get_variable_to_shape_map()})";
constexpr std::string_view kFromTransformers =
    "in Python: from transformers import AutoModel; "
    "AutoModel.from_pretrained(\"FOLDER\").save_pretrained(\"NEW\"), "
    "from the model that it was made from";

constexpr OtherFormat kOtherFormats[] = {
    {".pkl", kPickle, kToSafetensors},
    {".ckpt", "a pickle, or a TensorFlow checkpoint of before 2016", kFromTensorFlow},
    {".meta", "the graph beside a TensorFlow checkpoint, whose tensors are in .index and .data files",
     kFromTensorFlow},
    {".h5", "a Keras file", kFromTransformers},
    {".msgpack", "a Flax file", kFromTransformers},
};

}  // namespace

Error several_checkpoints(const ModelFiles& files, const std::vector<std::string>& which) {
  const std::string& last = which.back();
  return Error(fmt::format("{} has no safetensors, but several TensorFlow checkpoints: {}", files.name(),
                           fmt::join(which, ", ")),
               fmt::format("convert one of them: bertie convert {} NEW",
                           files.name_of(last.substr(0, last.rfind('.')))));
}

namespace {

[[noreturn]] void refuse(const ModelFiles& files, const std::string& folder) {
  const auto refuse_if_there = [&](std::string_view ending, std::string_view what, const std::string& hint) {
    for (const std::string& file : files.list())
      if (file.starts_with(in_folder(folder, "")) && file.ends_with(ending))
        throw Error(
            fmt::format("{} has no safetensors: its weights are in {}, {}", files.name(), quote(file), what),
            hint);
  };
  if (const std::vector<std::string> several = tensorflow_checkpoints(files, folder); several.size() > 1)
    throw several_checkpoints(files, several);
  const std::string by_transformers = fmt::format(
      "with transformers in Python: AutoModel.from_pretrained(\"{}\").save_pretrained(\"DIR\") and the same "
      "with "
      "AutoTokenizer, then load DIR; docs/models.md has more",
      files.name());
  for (const OtherFormat& format : kOtherFormats)
    refuse_if_there(format.ending, format.what, by_transformers);
  for (const auto& [ending, what] : {std::pair(".npz", "NumPy's format"), {".onnx", "an ONNX graph"}})
    refuse_if_there(ending, what, "download the file, then `convert` it");
  throw Error(fmt::format("{} has no weights: neither {} nor {} is in {}", files.name(), kWeightsFile,
                          kWeightsIndexFile, folder.empty() ? "it" : quote(folder)),
              "a model with safetensors");
}

void add_shards(const ModelFiles& files, const std::string& folder, const std::string& index,
                std::vector<std::string>& wanted) {
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map(files, index)) shards.insert(in_folder(folder, shard));
  for (const std::string& shard : shards) {
    if (!files.has(shard))
      throw Error(fmt::format("{} names {}, which is missing", files.name_of(index), quote(shard)));
    wanted.push_back(shard);
  }
}

// How the files of numbers begin whose index this is: bert_model.ckpt.data- for bert_model.ckpt.index.
std::string data_of_index(const std::string& index) { return index.substr(0, index.rfind('.')) + ".data-"; }

void add_data_files(const ModelFiles& files, const std::string& index, std::vector<std::string>& wanted) {
  for (const std::string& file : files.list())
    if (file.starts_with(data_of_index(index))) wanted.push_back(file);
}

}  // namespace

std::map<std::string, std::string> weight_map(const ModelFiles& files, std::string_view index) {
  const std::string name = files.name_of(index);
  const nlohmann::json root = parse_json(files.read(index).text(), name);
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object())
    throw Error(fmt::format("{}: there should be an object \"weight_map\" of tensor and shard names", name));
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    const std::string_view ending = index.ends_with(kTorchIndexFile) ? ".bin" : ".safetensors";
    if (!file.ends_with(ending) || file.find('/') != file.npos || !is_safe_path(file))
      throw Error(fmt::format("{}: tensor {}: its shard {} is not the plain name of a {} file in this folder",
                              name, quote(tensor), quote(shard.dump(-1, ' ', true)), ending));
    shard_of.emplace(tensor, file);
  }
  return shard_of;
}

const OtherFormat* other_format(std::string_view file) {
  for (const OtherFormat& format : kOtherFormats)
    if (file.ends_with(format.ending)) return &format;
  return nullptr;
}

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

std::vector<std::string> module_folders(const ModelFiles& files) {
  if (!files.has(kModulesFile)) return {""};
  const std::string name = files.name_of(kModulesFile);
  const nlohmann::json list = parse_json(files.read(kModulesFile).text(), name);
  if (!list.is_array() || list.empty()) throw Error(fmt::format("{}: expected a list of modules", name));
  std::vector<std::string> folders;
  for (const nlohmann::json& module : list) {
    const std::filesystem::path path = get_string(module, "path", name, "");
    std::string folder;
    for (const auto& part : path)
      if (!part.empty() && part != ".") folder = in_folder(folder, part.string());
    if (path.is_absolute() || (!folder.empty() && !is_safe_path(folder)))
      throw Error(fmt::format("{}: path {} leaves the model's folder", name, quote(path.string())));
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  }
  return folders;
}

std::string transformer_folder(const ModelFiles& files) {
  if (!files.has(kModulesFile)) return "";
  try {
    const std::string name = files.name_of(kModulesFile), folder = module_folders(files)[0];
    const nlohmann::json list = parse_json(files.read(kModulesFile).text(), name);
    if (get_string(list[0], "type", name).ends_with(".Transformer")) return folder;
  } catch (const Error&) {  // whoever reads the modules says what is wrong with them
  }
  return "";
}

std::string weights_file(const ModelFiles& files, const std::string& folder) {
  for (std::string_view file : kWeightsFiles)
    if (files.has(in_folder(folder, file))) return in_folder(folder, file);
  const std::vector<std::string> checkpoints = tensorflow_checkpoints(files, folder);
  return checkpoints.size() == 1 ? checkpoints[0] : "";
}

std::vector<std::string> tensorflow_checkpoints(const ModelFiles& files, const std::string& folder) {
  const std::vector<std::string> all = files.list();
  std::vector<std::string> found;
  for (const std::string& file : all) {
    const std::filesystem::path path = file;
    if (!is_tensorflow_index(file) ||
        (path.parent_path() != folder && path != in_folder(folder, "variables/variables.index")))
      continue;
    const std::string data = data_of_index(file);  // another program's .index has no such files beside it
    const auto at = std::ranges::lower_bound(all, data);
    if (at != all.end() && at->starts_with(data)) found.push_back(file);
  }
  return found;
}

bool is_weights_of(const std::string& below, const std::string& file) {
  const std::filesystem::path path = file;
  return !is_small_model_file(path.filename().string()) &&
         (path.parent_path() == below || path.parent_path() == in_folder(below, "variables"));
}

std::vector<std::string> files_read(const ModelFiles& files) {
  std::vector<std::string> found, folders{""};
  try {
    folders = module_folders(files);
  } catch (const Error&) {  // then the top is all
  }
  if (std::ranges::find(folders, "") == folders.end()) folders.push_back("");
  for (const std::string& folder : folders) {
    for (std::string_view file : small_model_files())
      if (files.has(in_folder(folder, file))) found.push_back(in_folder(folder, file));
    if (folder.empty() && !transformer_folder(files).empty())
      continue;  // then the weights are not at the top
    const std::string weights = weights_file(files, folder);
    if (weights.empty()) continue;
    found.push_back(weights);
    if (weights.ends_with(".json")) add_shards(files, folder, weights, found);
    if (is_tensorflow_index(weights)) add_data_files(files, weights, found);
  }
  return found;
}

std::vector<std::string> wanted_files(const ModelFiles& files) {
  const std::vector<std::string> folders = module_folders(files);
  const std::string transformer = transformer_folder(files);
  if (const std::string config = in_folder(transformer, kConfigFile); !files.has(config))
    throw Error(fmt::format("{} is not a model that Bertie knows: it has no {}", files.name(), config),
                "a model for transformers or sentence-transformers");
  const std::vector<std::string> all = files.list();
  for (const std::string& folder : folders) {
    if (!weights_file(files, folder).empty()) continue;
    // A Dense module may have weights, a Pooling module has none.
    if (folder == transformer || std::ranges::any_of(all, [&](const std::string& file) {
          return !folder.empty() && file.starts_with(folder + "/") && other_format(file);
        }))
      refuse(files, folder);
  }
  return files_read(files);
}

}  // namespace bertie::io
