#include "tasks/tensor_input.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "io/model_file_names.h"
#include "io/npz.h"

namespace bertie {
namespace fs = std::filesystem;

namespace {

struct Unread {
  std::string_view end, why, python;
};

constexpr std::string_view kPickle = "it is a pickle, which can run code and is never read";
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

constexpr Unread kUnread[] = {
    {".bin", kPickle, kToSafetensors},
    {".pt", kPickle, kToSafetensors},
    {".pth", kPickle, kToSafetensors},
    {".pkl", kPickle, kToSafetensors},
    {".ckpt", "it is a TensorFlow checkpoint or a pickle", kFromTensorFlow},
    {".index", "it is a part of a TensorFlow checkpoint", kFromTensorFlow},
    {".meta", "it is a part of a TensorFlow checkpoint", kFromTensorFlow},
    {".data-00000-of-00001", "it is a part of a TensorFlow checkpoint", kFromTensorFlow},
    {".h5", "it is a Keras file", kFromTransformers},
    {".msgpack", "it is a Flax file", kFromTransformers},
    {".onnx", "it is a graph whose weights have lost their names", kFromTransformers},
};

[[noreturn]] void refuse(const fs::path& path, const Unread& format) {
  const bool folder = format.python.find("\"FOLDER\"") != format.python.npos;
  const std::string_view word = folder ? "FOLDER" : "FILE";
  const fs::path shown = !folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  const size_t at = format.python.find(word);
  throw Error(fmt::format("cannot convert {}: {}", path.string(), format.why),
              fmt::format("{}{}{}", format.python.substr(0, at), shown.string(),
                          format.python.substr(at + word.size())));
}

const Unread* unread_format(const fs::path& path) {
  for (const Unread& format : kUnread)
    if (path.string().ends_with(format.end)) return &format;
  return nullptr;
}

// A folder without safetensors: its .npz, or the reason why what is there is not read.
fs::path in_folder(const fs::path& folder) {
  std::error_code error;
  for (std::string_view file : {io::kWeightsFile, io::kWeightsIndexFile})
    if (fs::exists(folder / file, error)) return folder / file;
  std::vector<fs::path> npz, unread;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".npz") npz.push_back(entry.path());
    if (unread_format(entry.path())) unread.push_back(entry.path());
  }
  if (npz.size() == 1) return npz[0];
  if (npz.empty() && !unread.empty()) refuse(unread[0], *unread_format(unread[0]));
  throw Error(
      fmt::format("no model.safetensors in {}{}", folder.string(),
                  npz.empty() ? "" : ", and more than one .npz file"),
      npz.empty() ? "give a folder with config.json and model.safetensors in it" : "name one of them");
}

}  // namespace

std::vector<InputTensor> open_tensors(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_tensors(in_folder(path));
  if (const Unread* format = unread_format(path)) refuse(path, *format);
  std::vector<InputTensor> tensors;
  if (path.extension() == ".npz") {
    auto files = std::make_shared<const io::Npz>(io::Npz::open(path));
    for (const io::NpzTensor& t : files->tensors())
      tensors.push_back({t.name, t.dtype, t.shape, t.elements, [files, &t] { return files->read(t); }});
    return tensors;
  }
  if (!path.string().ends_with(".safetensors") && !path.string().ends_with(".safetensors.index.json"))
    throw Error(fmt::format("cannot convert {}: neither a folder, nor .safetensors, nor .npz", path.string()),
                "docs/converting.md says what is read");
  auto files = std::make_shared<const io::SafeTensors>(io::SafeTensors::open(path));
  for (const io::TensorInfo& t : files->tensors())
    tensors.push_back({t.name, t.dtype, t.shape, t.elements(),
                       [files, &t] {
                         std::vector<float> all(t.elements());
                         io::to_float(t, 0, all);
                         return all;
                       },
                       [files, &t](size_t first, std::span<float> out) { io::to_float(t, first, out); }});
  return tensors;
}

}  // namespace bertie
