#pragma once
// A checkpoint under old names, in another precision or another program's format, to a folder that Bertie and
// transformers load. Streams: a tensor at a time is in memory (of an ONNX graph, its matrices). docs/converting.md
// says what is read.
//
//   bertie::convert({.from = "uncased_L-12_H-768_A-12/bert_model.ckpt", .to = "bert"});
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bertie/export.h"
#include "bertie/model.h"

namespace bertie {

struct ConvertOptions {
  std::filesystem::path from;               // a model folder, or a file of weights
  std::filesystem::path to;                 // a folder, written whole or not at all
  std::filesystem::path config = {};        // a config.json; empty: the one beside the tensors
  std::optional<Precision> precision = {};  // of the new file; nothing: as stored (float64 becomes float32)
  // A vocab.txt of fewer tokens, all of them the model's (learn_vocabulary makes one: `from`): the new model
  // has these alone. For WordPiece; empty: all that there are.
  std::filesystem::path vocabulary = {};
  std::vector<std::string> drop = {};  // tensors to leave out, by their old or new name
  bool drop_unknown = false;           // leave out what the model has no use for; else that is an Error
  bool force = false;                  // replace a folder that is there, if convert could have made all of it
  // Called before each piece with the bytes written and the bytes to write, and with 0 and 0 before anything
  // is written; may throw to give up.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

struct DroppedTensor {
  std::string name, reason;
};

struct Conversion {
  size_t tensors = 0, renamed = 0;
  uint64_t bytes = 0;  // of numbers
  std::vector<DroppedTensor> dropped;
  std::vector<std::string> files;  // in the new folder
};

// Throws Error that names the tensor and the file; then there is no new folder, and an old one is as it was.
BERTIE_API Conversion convert(const ConvertOptions& options);

}  // namespace bertie
