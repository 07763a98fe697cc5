#pragma once
// `bertie bench`: how fast, as a fraction of what this machine can do, measured in the same run.
#include <filesystem>
#include <string>

namespace bertie::cli {

struct BenchOptions {
  std::string what;            // encode, load, tokenize, gemm
  std::string model;           // encode: bert-base, minilm, bert-large; empty: the first two
  std::string shape;           // encode: BxN or sst2x32; empty: 1x128, 8x128, sst2x32
  int threads = 0;             // 0: one, and all cores
  double seconds = 0;          // per measurement; 0: the benchmark's own choice
  std::filesystem::path path;  // load: a model's directory; tokenize: a text file and --model's tokenizer
  bool json = false;           // a JSON object per line instead of a table
};

int bench(const BenchOptions& options);

}  // namespace bertie::cli
