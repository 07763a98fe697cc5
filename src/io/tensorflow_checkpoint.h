#pragma once
// Tensors in TensorFlow's checkpoints: PREFIX.index, and beside it PREFIX.data-00000-of-00001 or several such
// files. Google's bert_model.ckpt is one, and so are the variables/ of a SavedModel.
//
// The index is a table as LevelDB writes it: a footer that finds a block of blocks; a block is a list of
// sorted keys, each stored as what differs from the one before, and their values. A value is a message
// (protobuf.h) with a tensor's dtype, shape, file, place and sum.
//
// Nothing in it is trusted: blocks and tensors lie within their files, sizes are those of shape and dtype,
// names are sorted and unique, and sums are checked, those of all numbers too, which reads all of them. What
// holds no numbers (text, object graphs) is passed over. Anything wrong is an Error that names the file, the
// tensor and the problem.
#include <string_view>
#include <vector>

#include "bertie/files.h"
#include "io/safetensors.h"

namespace bertie::io {

struct TensorFlowTensors {
  std::vector<TensorInfo> tensors;  // sorted by name, as TensorFlow has it: "bert/pooler/dense/kernel"
  std::vector<FileBytes> files;     // which they lie in
};

enum class Sums { kCheck, kIgnore };  // a fuzzer cannot guess sums

bool is_tensorflow_index(std::string_view file);  // by the ending of its name
TensorFlowTensors tensorflow_tensors(const ModelFiles& files, std::string_view index,
                                     Sums sums = Sums::kCheck);

}  // namespace bertie::io
