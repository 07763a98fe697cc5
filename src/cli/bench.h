#pragma once
// `bertie bench`: how fast, as a fraction of what this machine can do, measured in the same run.
#include <filesystem>
#include <string>
#include <vector>

namespace bertie::cli {

struct BenchOptions {
  std::string what;            // encode, generate, pretrain, attention, load, tokenize, gemm
  std::string model;           // encode: bert-base, minilm, bert-large; empty: the first two
  std::string shape;           // encode: BxN or sst2x32; empty: 1x128, 8x128, sst2x32
  int threads = 0;             // 0: one, and all cores; attention: all cores
  double seconds = 0;          // per measurement; 0: the benchmark's own choice
  std::filesystem::path path;  // load: a model's directory; tokenize: a text file and --model's tokenizer
  bool json = false;           // a JSON object per line instead of a table
  std::string size = {};       // pretrain: a size's name; empty: tiny, mini and small
  size_t accumulate = 1;       // pretrain: micro-batches
  bool recompute = false;      // pretrain
  bool progress = false;       // on standard error

  struct Attention {
    std::vector<std::string> mechanisms;  // empty: all
    size_t n = 0, max_n = 0;              // 0: 128, 256 … max_n; 0: 16384
    size_t heads = 12, head_size = 64;
    bool forward = false;        // the forward pass alone
    std::filesystem::path plot;  // a folder for the plots
    std::filesystem::path from;  // JSON lines of an earlier run, to show and plot instead of measuring
  } attention = {};
};

int bench(const BenchOptions& options);
int bench_attention(const BenchOptions& options);
int bench_pretrain(const BenchOptions& options);

// BATCHxLENGTH. Throws Error.
struct BatchShape {
  size_t batch, length;
};
BatchShape batch_shape(const std::string& name);

}  // namespace bertie::cli
