#pragma once
// A model in 8-bit integers: a quarter of the size, and faster; what that costs is measured and said.
//
//   bertie::quantize({.from = "bert-base-uncased", .to = "bert-int8"});
//   auto model = bertie::load("bert-int8");
//
// load() with LoadOptions::format kInt8 does the same in memory. docs/quantizing.md says how it is done.
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "bertie/export.h"
#include "bertie/files.h"

namespace bertie {

struct QuantizeOptions {
  ModelFiles from;
  std::filesystem::path to;  // a folder, written whole or not at all
  // What the model will read, some fifty texts: on every other one is measured which numbers must stay exact,
  // on those between them what was lost. Empty: a few English sentences of Bertie's own.
  std::vector<std::string> texts = {};
  bool force = false;  // replace a model's folder that is there
};

struct Quantized {
  size_t bytes_before = 0, bytes = 0;  // of the weights' files
  // Each token's last hidden state beside that of the model in fp32: the cosine, on texts that were not used
  // to choose what stays exact.
  double mean_cosine = 0, worst_cosine = 0;
  size_t tokens = 0;
};

// The tokenizer and a sentence-transformers model's modules come with it. Error where `from` is quantized.
BERTIE_API Quantized quantize(const QuantizeOptions& options);

}  // namespace bertie
