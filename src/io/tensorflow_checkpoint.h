#pragma once
// Tensors in TensorFlow's checkpoints: PREFIX.index, and beside it PREFIX.data-00000-of-00001 or several such
// files. Google's bert_model.ckpt is one, and so are the variables/ of a SavedModel.
//
// The index is a table in LevelDB's format: a footer, which says where the block of blocks is; a block is a
// list of sorted keys, each stored as what differs from the one before, with their values. A value is a
// message (protobuf.h) with a tensor's dtype, shape, file, place and CRC.
//
// Nothing in it is trusted: blocks follow each other within the file, tensors lie within their files and do
// not overlap, sizes are those of shape and dtype, names are sorted and unique, and CRCs are checked, those
// of all numbers too, which reads all of them. What holds no numbers (text, object graphs) is passed over.
// Anything wrong is an Error that names the file, the tensor and the problem.
#include <string_view>
#include <vector>

#include "bertie/files.h"
#include "io/safetensors.h"

namespace bertie::io {

struct TensorFlowTensors {
  std::vector<TensorInfo> tensors;  // sorted by name, as TensorFlow has it: "bert/pooler/dense/kernel"
  std::vector<FileBytes> files;     // which they lie in
};

enum class Crcs { kCheck, kIgnore };  // a fuzzer cannot guess them

bool is_tensorflow_index(std::string_view file);  // by the ending of its name
TensorFlowTensors tensorflow_tensors(const ModelFiles& files, std::string_view index,
                                     Crcs crcs = Crcs::kCheck);

}  // namespace bertie::io
