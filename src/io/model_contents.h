#pragma once
// What is in a model's folder, on the hub or in memory: which files Bertie reads, those of a
// sentence-transformers model's modules too, and why it would not read some models at all.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "bertie/files.h"

namespace bertie::io {

// The folders that modules.json names, relative ("" is the top) and each once; the top alone where there is
// no modules.json. Throws Error where it is not a list, or a path leaves the model.
std::vector<std::string> module_folders(const ModelFiles& files);
// That of the transformer; the top where modules.json does not begin with one, or is not as it should be.
std::string transformer_folder(const ModelFiles& files);

// The file of weights in a folder ("" is the top): a file, an index of shards, or that of a TensorFlow
// checkpoint; "" where there is none, or where there are several checkpoints.
std::string weights_file(const ModelFiles& files, const std::string& folder = "");
// The indexes of TensorFlow checkpoints in a folder, or in the variables/ that a SavedModel has there.
std::vector<std::string> tensorflow_checkpoints(const ModelFiles& files, const std::string& folder = "");

Error several_checkpoints(const ModelFiles& files, const std::vector<std::string>& which);

// Whether a file holds weights of the model in the folder `below`, by where it lies and what it is called.
bool is_weights_of(const std::string& below, const std::string& file);

// Configuration, tokenizer and weights, as far as they are there. `wanted_files` throws Error where there are
// no weights that can be read: it says what there is instead and how to convert that.
std::vector<std::string> files_read(const ModelFiles& files);
std::vector<std::string> wanted_files(const ModelFiles& files);

// An index of shards: each tensor and the file beside it that has it. Throws Error where that is no plain
// name.
std::map<std::string, std::string> weight_map(const ModelFiles& files, std::string_view index);

// A relative path that stays where it is put: no "..", no empty part, nothing unprintable.
bool is_safe_path(const std::string& path);

// What else weights come as: what that is, and what to do in Python with "FILE" or with the "FOLDER" it is
// in.
struct OtherFormat {
  std::string_view ending, what, python;
};
const OtherFormat* other_format(std::string_view file);  // null: none of these

}  // namespace bertie::io
