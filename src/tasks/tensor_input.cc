#include "tasks/tensor_input.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "io/model_contents.h"
#include "io/npz.h"
#include "io/onnx.h"
#include "io/tensorflow_checkpoint.h"
#include "io/torch_file.h"
#include "model/low_rank.h"

namespace bertie {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& path, const io::OtherFormat& format) {
  const bool folder = format.python.find("\"FOLDER\"") != format.python.npos;
  const std::string_view word = folder ? "FOLDER" : "FILE";
  const fs::path shown = !folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  const size_t at = format.python.find(word);
  throw Error(fmt::format("cannot convert {}: it is {}", path.string(), format.what),
              fmt::format("{}{}{}", format.python.substr(0, at), shown.string(),
                          format.python.substr(at + word.size())));
}

// A folder's weights; without any that every command reads, its one file that can be converted, or the reason
// why what is there is not read.
fs::path in_folder(const fs::path& folder) {
  if (const std::string file = io::weights_file(folder); !file.empty()) return folder / file;
  std::error_code error;
  std::vector<fs::path> read, unread;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string file = entry.path().string();
    if (entry.path().extension() == ".npz" || io::is_onnx_file(file) || io::is_tensorflow_index(file))
      read.push_back(entry.path());
    if (io::other_format(file)) unread.push_back(entry.path());
  }
  if (read.size() == 1) return read[0];
  if (read.empty() && !unread.empty()) refuse(unread[0], *io::other_format(unread[0].string()));
  throw Error(
      fmt::format("no model.safetensors in {}{}", folder.string(),
                  read.empty() ? "" : ", and more than one other file of weights"),
      read.empty() ? "give a folder with config.json and model.safetensors in it" : "name one of them");
}

}  // namespace

std::vector<InputTensor> open_tensors(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_tensors(in_folder(path));
  if (const io::OtherFormat* format = io::other_format(path.string())) refuse(path, *format);
  std::vector<InputTensor> tensors;
  if (path.extension() == ".npz") {
    auto files = std::make_shared<const io::Npz>(io::Npz::open(path));
    for (const io::NpzTensor& t : files->tensors())
      tensors.push_back({t.name, t.dtype, t.shape, t.elements, [files, &t] { return files->read(t); }});
    return tensors;
  }
  const std::string name = path.string();
  if (!name.ends_with(".safetensors") && !name.ends_with(".index.json") && !io::is_torch_file(name) &&
      !io::is_tensorflow_index(name) && !io::is_onnx_file(name))
    throw Error(fmt::format("cannot convert {}: neither a folder, nor .safetensors, .bin, .pt, .pth, .index, "
                            ".onnx or .npz",
                            name),
                "docs/converting.md says what is read");
  auto files = std::make_shared<const io::SafeTensors>(apply_low_rank(io::SafeTensors::open(path), name));
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
