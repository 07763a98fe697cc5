#pragma once
// Tensors in the files that torch.save writes: pytorch_model.bin, .pt, .pth; the zip archive of today, and
// what PyTorch wrote before 1.6.
//
// The pickle inside is read as data (pickle.h). Of all that a pickle can name, three constructors of tensors,
// OrderedDict and the kinds of storage mean something here; whatever else it calls is an Error that names it.
// A file is a dict of tensors, or a dict with such a dict under "state_dict" or "model"; what is no tensor in
// it is passed over.
//
// Nothing else is trusted either: a tensor lies within its storage, a storage within the file, sums are those
// that the archive states. Tensors are views of the file where they lie there in row-major order, else
// copies.
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace bertie::io {

struct TorchTensors {
  std::vector<TensorInfo> tensors;  // sorted by name
  std::vector<std::vector<std::byte>> copies;
};

bool is_torch_file(std::string_view file);  // by the ending of its name
TorchTensors torch_tensors(std::span<const std::byte> file, const std::string& name);

}  // namespace bertie::io
