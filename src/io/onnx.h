#pragma once
// The weights inside ONNX files of encoders, as torch.onnx, optimum and sentence-transformers export them.
//
// A file is one message (protobuf.h): a graph of nodes, and tensors that are its constants ("initializers").
// An exporter keeps the names of most parameters, but stores the matrix of a linear layer transposed, as the
// nameless second side of a MatMul. Its name is found again by the node's own
// ("/encoder/layer.0/output/dense/MatMul"), or by the bias that is added behind it
// ("encoder.layer.0.output.dense.bias"). Of parameters with equal numbers one is stored; the others are found
// by the nodes that take it. All else in the graph (shapes, masks, scales) is passed over. Graphs of 8-bit
// integers, or whose layers an optimizer fused, are Errors that say so.
//
// Numbers are in the file, or in others beside it that it names. Nothing is trusted: sizes are those of shape
// and dtype, places lie within their file, names of files stay in the folder.
#include <string_view>
#include <vector>

#include "bertie/files.h"
#include "io/safetensors.h"

namespace bertie::io {

struct OnnxTensors {
  std::vector<TensorInfo> tensors;             // sorted by name; matrices as PyTorch has them
  std::vector<FileBytes> files;                // which they lie in
  std::vector<std::vector<std::byte>> copies;  // of those that were transposed
};

bool is_onnx_file(std::string_view file);  // by the ending of its name
OnnxTensors onnx_tensors(const ModelFiles& files, std::string_view file);

}  // namespace bertie::io
