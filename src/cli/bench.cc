#include "cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bertie/bertie.h"
#include "cli/measure.h"
#include "cli/sst2_lengths.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"

namespace bertie::cli {
namespace {

std::vector<int> thread_counts(const BenchOptions& o) {
  if (o.threads > 0) return {o.threads};
  const int all = available_threads();
  return all > 1 ? std::vector{1, all} : std::vector{1};
}

struct NamedConfig {
  std::string name;
  Config config;
};

std::vector<NamedConfig> configs(const BenchOptions& o) {
  std::vector<NamedConfig> chosen;
  for (const std::string& name :
       o.model.empty() ? std::vector<std::string>{"bert-base", "minilm"} : std::vector<std::string>{o.model})
    chosen.push_back({name, Config::named(name)});
  return chosen;
}

struct NamedShape {
  std::string name;
  std::vector<int> lengths;
};

NamedShape shape_named(const std::string& name) {
  if (name == "sst2x32") return {name, {std::begin(kSst2Lengths), std::end(kSst2Lengths)}};
  const BatchShape shape = batch_shape(name);
  return {name, std::vector<int>(shape.batch, int(shape.length))};
}

std::vector<NamedShape> shapes(const BenchOptions& o) {
  if (!o.shape.empty()) return {shape_named(o.shape)};
  return {shape_named("1x128"), shape_named("8x128"), shape_named("sst2x32")};
}

// Multiplications and additions of the matrix products, on real tokens.
double encode_operations(const Config& c, const std::vector<int>& lengths) {
  double operations = 0;
  for (int n : lengths) {
    const double per_token =
        2.0 * double(4 * c.hidden * c.hidden + 2 * c.hidden * c.intermediate) + 4.0 * n * double(c.hidden);
    operations += n * per_token * double(c.depth());
  }
  return operations;
}

int bench_encode(const BenchOptions& o) {
  const auto all_configs = configs(o);
  const auto all_shapes = shapes(o);
  if (!o.json) {
    fmt::print(
        "Forward passes in fp32 with random weights ({}). Peak is fused multiply-adds alone: the best pass "
        "is\n"
        "given as a share of the best peak, and the median pass of the peak measured right around it.\n\n",
        kernels::instruction_set());
    fmt::print("{:<17}{:<9}{:>8}{:>10}{:>11}{:>11}{:>10}{:>9}{:>10}{:>10}\n", "model", "batch", "threads",
               "best ms", "median ms", "tokens/s", "GFLOP/s", "peak", "of peak", "median");
  }
  for (const auto& [model_name, config] : all_configs) {
    const Model model = Model::random(config);
    for (const auto& [shape_name, lengths] : all_shapes) {
      std::vector<int32_t> ids, offsets{0};
      Random random(7);
      for (int n : lengths) {
        for (int i = 0; i < n; ++i) ids.push_back(int32_t(random.below(uint32_t(config.vocabulary))));
        offsets.push_back(int32_t(ids.size()));
      }
      for (int threads : thread_counts(o)) {
        Run run(model, threads);
        const double operations = encode_operations(config, lengths);
        const Measured m = measure({.seconds = o.seconds > 0 ? o.seconds : 5.0}, operations, threads,
                                   [&] { run.forward({.ids = ids, .offsets = offsets}); });
        const double tokens = double(ids.size());
        if (o.json) {
          fmt::print("{}\n", nlohmann::json{{"model", model_name},
                                            {"shape", shape_name},
                                            {"threads", threads},
                                            {"milliseconds", m.best * 1e3},
                                            {"median_milliseconds", m.median * 1e3},
                                            {"gflops", operations / m.best / 1e9},
                                            {"peak_gflops", m.best_peak / 1e9},
                                            {"fraction", operations / m.best / m.best_peak},
                                            {"median_fraction", m.share},
                                            {"tokens_per_second", tokens / m.best}}
                                 .dump());
        } else {
          fmt::print("{:<17}{:<9}{:>8}{:>10.2f}{:>11.2f}{:>11.0f}{:>10.1f}{:>9.1f}{:>9.1f}%{:>9.1f}%\n",
                     model_name, shape_name, threads, m.best * 1e3, m.median * 1e3, tokens / m.best,
                     operations / m.best / 1e9, m.best_peak / 1e9, 100 * operations / m.best / m.best_peak,
                     100 * m.share);
        }
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

// A text continued token by token: each reads all weights once, so that memory's speed is what counts.
int bench_generate(const BenchOptions& o) {
  constexpr size_t kPrompt = 128, kNew = 64;
  const std::string name = o.model.empty() ? "gpt2" : o.model;
  const Model model = Model::random(Config::named(name));
  if (!model.config().causal())
    throw Error(fmt::format("{} does not continue texts", name), "bertie bench generate --model gpt2");
  std::vector<int32_t> prompt(kPrompt);
  Random random(7);
  for (int32_t& id : prompt) id = int32_t(random.below(uint32_t(model.config().vocabulary)));
  if (!o.json)
    fmt::print(
        "{}, a prompt of {} tokens and {} more, greedily, in fp32 with random weights ({})\n\n{:>8}{:>14}"
        "{:>14}{:>12}{:>10}\n",
        name, kPrompt, kNew, kernels::instruction_set(), "threads", "prompt ms", "ms a token", "tokens/s",
        "GB/s");
  for (int threads : thread_counts(o)) {
    Run run(model, threads);
    double best_prompt = 1e9, best_token = 1e9;
    const auto begin = Clock::now();
    do {
      Cache cache(model);
      const auto step = [&](std::span<const int32_t> ids) {
        const int32_t offsets[2] = {0, int32_t(ids.size())}, last[1] = {int32_t(ids.size()) - 1};
        const auto logits =
            run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm, .rows = last}, cache)
                .logits[0];
        return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
      };
      auto start = Clock::now();
      int32_t next = step(prompt);
      best_prompt = std::min(best_prompt, seconds_since(start));
      start = Clock::now();
      for (size_t i = 1; i < kNew; ++i) next = step(std::span(&next, 1));
      best_token = std::min(best_token, seconds_since(start) / double(kNew - 1));
    } while (seconds_since(begin) < (o.seconds > 0 ? o.seconds : 5.0));
    const double rate = double(model.parameters() * sizeof(float)) / best_token / 1e9;
    if (o.json)
      fmt::print("{}\n", nlohmann::json{{"model", name},
                                        {"threads", threads},
                                        {"prompt_milliseconds", best_prompt * 1e3},
                                        {"milliseconds_per_token", best_token * 1e3},
                                        {"tokens_per_second", 1 / best_token},
                                        {"gigabytes_per_second", rate}}
                             .dump());
    else
      fmt::print("{:>8}{:>14.1f}{:>14.2f}{:>12.1f}{:>10.1f}\n", threads, best_prompt * 1e3, best_token * 1e3,
                 1 / best_token, rate);
    std::fflush(stdout);
  }
  return 0;
}

// From nothing to the first sentence vector, as a short program meets it: files are in the page cache after
// the first time.
int bench_load(const BenchOptions& o) {
  if (o.path.empty())
    throw Error("bench load needs a model's directory", "bertie bench load all-MiniLM-L6-v2");
  const std::filesystem::path model = find_model(o.path.string());
  std::vector<double> times;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    const TextModel encoder = load(std::filesystem::path(model), {.threads = o.threads});
    encoder.embed("The bank deposited the money near the river bank.");
    times.push_back(seconds_since(start));
  } while (times.size() < 5 || seconds_since(begin) < (o.seconds > 0 ? o.seconds : 2.0));
  std::sort(times.begin(), times.end());
  const double best = times.front() * 1e3, median = times[times.size() / 2] * 1e3;
  if (o.json)
    fmt::print("{}\n",
               nlohmann::json{{"milliseconds", best}, {"median_milliseconds", median}, {"runs", times.size()}}
                   .dump());
  else
    fmt::print("load to first embedding: best {:.1f} ms, median {:.1f} ms of {} runs\n", best, median,
               times.size());
  return 0;
}

int bench_tokenize(const BenchOptions& o) {
  if (o.path.empty() || o.model.empty())
    throw Error("bench tokenize needs a tokenizer and a text file",
                "bertie bench tokenize --model DIR_OR_VOCAB TEXT_FILE");
  // A tokenizer may be a file alone.
  const Tokenizer tokenizer = Tokenizer::load(
      std::filesystem::is_regular_file(o.model) ? std::filesystem::path(o.model) : find_model(o.model));
  std::ifstream in(o.path);
  if (!in) throw Error(fmt::format("cannot read {}", o.path.string()));
  std::vector<std::string> lines;
  size_t bytes = 0;
  for (std::string line; bytes < (size_t{64} << 20) && std::getline(in, line);)
    bytes += line.size() + 1, lines.push_back(line);
  if (lines.empty()) throw Error(fmt::format("{} has no lines", o.path.string()));
  Encoding encoding;
  std::vector<double> times;
  size_t tokens = 0;
  const auto begin = Clock::now();
  do {
    tokens = 0;
    const auto start = Clock::now();
    for (const std::string& line : lines)
      tokenizer.encode_into(line, {}, encoding), tokens += encoding.size();
    times.push_back(seconds_since(start));
  } while (times.size() < 3 || seconds_since(begin) < (o.seconds > 0 ? o.seconds : 2.0));
  const double best = *std::min_element(times.begin(), times.end());
  if (o.json)
    fmt::print("{}\n", nlohmann::json{{"megabytes_per_second", double(bytes) / best / 1e6},
                                      {"tokens_per_second", double(tokens) / best},
                                      {"bytes", bytes},
                                      {"tokens", tokens}}
                           .dump());
  else
    fmt::print("{:.1f} MB/s, {:.2f} million tokens/s with offsets, one thread ({} tokens in {:.1f} MB)\n",
               double(bytes) / best / 1e6, double(tokens) / best / 1e6, tokens, double(bytes) / 1e6);
  return 0;
}

// The linear layers alone, with weights from beyond the L2 cache as in a real pass.
int bench_gemm(const BenchOptions& o) {
  struct Shape {
    size_t rows, outputs, inputs;
  };
  constexpr Shape kShapes[] = {{128, 2304, 768},  {128, 768, 768},   {128, 3072, 768}, {128, 768, 3072},
                               {1024, 3072, 768}, {1024, 768, 3072}, {16, 3072, 768},  {1, 3072, 768},
                               {128, 1152, 384},  {128, 384, 384},   {128, 1536, 384}, {128, 384, 1536},
                               {1024, 1536, 384}, {1024, 384, 1536}};
  if (!o.json)
    fmt::print("{:>6}{:>8}{:>8}{:>9}{:>11}{:>10}{:>10}\n", "rows", "outputs", "inputs", "threads", "GFLOP/s",
               "peak", "of peak");
  for (const Shape& s : kShapes)
    for (int threads : thread_counts(o)) {
      const size_t floats = kernels::packed_floats(s.outputs, s.inputs),
                   copies = std::max<size_t>(1, (size_t{48} << 20) / (floats * 4));
      Block weights(copies * floats * 4), bias(s.outputs * 4 + 4096), x(s.rows * s.inputs * 4),
          y(s.rows * s.outputs * 4);
      Random random(3);
      for (size_t i = 0; i < copies * floats; ++i) weights.as<float>()[i] = float(i % 17) * 0.01f - 0.08f;
      for (size_t i = 0; i < s.rows * s.inputs; ++i) x.as<float>()[i] = random.uniform();
      Team team(threads);
      size_t copy = 0;
      const double operations = 2.0 * double(s.rows * s.outputs * s.inputs);
      const Measured m = measure({.seconds = o.seconds > 0 ? o.seconds : 1.0}, operations, threads, [&] {
        kernels::linear_forward(
            {x.as<float>(), s.rows, s.inputs},
            {weights.as<float>() + floats * (copy++ % copies), bias.as<float>(), s.inputs, s.outputs},
            kernels::Activation::kNone, {y.as<float>(), s.rows, s.outputs}, team);
      });
      const double rate = operations / m.median;
      if (o.json)
        fmt::print("{}\n", nlohmann::json{{"rows", s.rows},
                                          {"outputs", s.outputs},
                                          {"inputs", s.inputs},
                                          {"threads", threads},
                                          {"gflops", rate / 1e9},
                                          {"peak_gflops", m.best_peak / 1e9},
                                          {"fraction", m.share}}
                               .dump());
      else
        fmt::print("{:>6}{:>8}{:>8}{:>9}{:>11.1f}{:>10.1f}{:>9.1f}%\n", s.rows, s.outputs, s.inputs, threads,
                   rate / 1e9, m.best_peak / 1e9, 100 * m.share);
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace

BatchShape batch_shape(const std::string& name) {
  const size_t x = name.find('x');
  BatchShape shape{};
  if (x == name.npos || !parse_number(std::string_view(name).substr(0, x), shape.batch) ||
      !parse_number(std::string_view(name).substr(x + 1), shape.length) || shape.batch < 1 ||
      shape.length < 1 || shape.batch > 4096 || shape.length > 512)
    throw Error(fmt::format("{} is not a shape", name), "use BATCHxLENGTH, such as 8x128, or sst2x32");
  return shape;
}

int bench(const BenchOptions& o) {
  if (o.what == "encode") return bench_encode(o);
  if (o.what == "generate") return bench_generate(o);
  if (o.what == "load") return bench_load(o);
  if (o.what == "tokenize") return bench_tokenize(o);
  if (o.what == "gemm") return bench_gemm(o);
  if (o.what == "attention") return bench_attention(o);
  if (o.what == "pretrain") return bench_pretrain(o);
  throw Error(fmt::format("there is no benchmark {}", o.what), "bertie help bench");
}

}  // namespace bertie::cli
