// bertie bench
#include "cli/commands/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <vector>

#include "bertie/bench.h"
#include "bertie/json_writer.h"
#include "bertie/model.h"
#include "bertie/text_model.h"
#include "cli/commands/sst2_lengths.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

std::vector<int> thread_counts(const Settings& settings) {
  if (settings.threads.value_or(0) > 0) return {int(*settings.threads)};
  const int all = core_count();
  return all > 1 ? std::vector{1, all} : std::vector{1};
}

std::vector<int32_t> random_ids(size_t count, size_t vocabulary) {
  std::minstd_rand random(7);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = int32_t(random() % vocabulary);
  return ids;
}

std::string_view held_in(const Settings& settings) {
  switch (weight_format(settings)) {
    case WeightFormat::kFloat32:
      return " in fp32";
    case WeightFormat::kBFloat16:
      return " held in bf16";
    case WeightFormat::kInt8:
      return " in int8";
  }
  return "";
}

void print_line(JsonWriter& json) {
  print(json.end_object().take() + "\n");
  flush_output();
}

struct NamedConfig {
  std::string name;
  Config config;
};

std::vector<NamedConfig> configs(const Settings& settings) {
  if (settings.model) return {{*settings.model, Config::named(*settings.model)}};
  return {{"bert-base", Config::named("bert-base")}, {"minilm", Config::named("minilm")}};
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

std::vector<NamedShape> shapes(const Settings& settings) {
  if (settings.shape) return {shape_named(*settings.shape)};
  return {shape_named("1x16"), shape_named("1x128"), shape_named("8x128"), shape_named("sst2x32")};
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

std::vector<WeightFormat> formats(const Settings& settings) {
  if (settings.precision) return {weight_format(settings)};
  return {WeightFormat::kFloat32, WeightFormat::kInt8};
}

std::string_view name_of(WeightFormat format) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "int8"};
  return kNames[size_t(format)];
}

int bench_encode(const Settings& settings) {
  const auto all_configs = configs(settings);
  const auto all_shapes = shapes(settings);
  if (!settings.json) {
    print(
        "Forward passes with random weights ({}). The peak is products alone, of fp32 or of int8, measured "
        "in\n"
        "the same run: the best pass is given as a share of the best peak, the median one of the peak around "
        "it.\n\n",
        instruction_set());
    print(
        "| {:<9} | {:<4} | {:>6} | {:<7} | {:>7} | {:>8} | {:>8} | {:>8} | {:>8} | {:>6} | {:>7} | {:>6} |\n",
        "model", "in", "MB", "batch", "threads", "best ms", "p50 ms", "p99 ms", "tokens/s", "GOP/s",
        "of peak", "median");
    print("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  }
  for (const auto& [model_name, config] : all_configs)
    for (const WeightFormat format : formats(settings)) {
      const Model model = Model::random(config, 1, {}, format);
      const bool int8 = format == WeightFormat::kInt8;
      for (const auto& [shape_name, lengths] : all_shapes) {
        std::vector<int32_t> offsets{0};
        for (int n : lengths) offsets.push_back(offsets.back() + n);
        const std::vector<int32_t> ids = random_ids(size_t(offsets.back()), config.vocabulary);
        for (int threads : thread_counts(settings)) {
          Run run(model, threads);
          const double operations = encode_operations(config, lengths);
          const Speed m =
              measure([&] { run.forward({.ids = ids, .offsets = offsets}); }, operations, threads,
                      {.seconds = seconds_or(settings, 5), .peak = int8 ? Peak::kInt8 : Peak::kFloat32});
          const double tokens = double(ids.size()), share = operations / m.best / m.best_peak;
          const double megabytes = double(model.bytes()) / 1e6;
          if (settings.json) {
            JsonWriter json;
            json.begin_object()
                .field("model", model_name)
                .field("precision", name_of(format))
                .field("megabytes", megabytes)
                .field("shape", shape_name)
                .field("threads", threads)
                .field("milliseconds", m.best * 1e3)
                .field("median_milliseconds", m.median * 1e3)
                .field("p99_milliseconds", m.p99 * 1e3)
                .field("gflops", operations / m.best / 1e9)
                .field("peak_gflops", m.best_peak / 1e9)
                .field("fraction", share)
                .field("median_fraction", m.share)
                .field("tokens_per_second", tokens / m.best);
            print_line(json);
          } else {
            print(
                "| {:<9} | {:<4} | {:>6.1f} | {:<7} | {:>7} | {:>8.2f} | {:>8.2f} | {:>8.2f} | {:>8.0f} | "
                "{:>6.1f} | "
                "{:>6.1f}% | {:>5.1f}% |\n",
                model_name, name_of(format), megabytes, shape_name, threads, m.best * 1e3, m.median * 1e3,
                m.p99 * 1e3, tokens / m.best, operations / m.best / 1e9, 100 * share, 100 * m.share);
          }
          flush_output();
        }
      }
    }
  return 0;
}

// A text continued token by token: each reads all weights once, so that memory's speed is what counts.
int bench_generate(const Settings& settings) {
  constexpr size_t kPrompt = 128, kNew = 64;
  const std::string name = settings.model.value_or("gpt2");
  const Model model = Model::random(Config::named(name), 1, {}, weight_format(settings));
  if (!model.config().causal())
    throw UsageError(fmt::format("{} does not continue texts", name), "bertie bench generate --model gpt2");
  const std::vector<int32_t> prompt = random_ids(kPrompt, model.config().vocabulary);
  if (!settings.json)
    print(
        "{}, a prompt of {} tokens and {} more, greedily, with random weights{} ({})\n\n{:>8}{:>14}"
        "{:>14}{:>12}{:>10}\n",
        name, kPrompt, kNew, held_in(settings), instruction_set(), "threads", "prompt ms", "ms a token",
        "tokens/s", "GB/s");
  for (int threads : thread_counts(settings)) {
    Run run(model, threads);
    double best_prompt = 1e9, best_token = 1e9;
    const Stopwatch begin;
    do {
      Cache cache(model);
      const auto step = [&](std::span<const int32_t> ids) {
        const int32_t offsets[2] = {0, int32_t(ids.size())}, last[1] = {int32_t(ids.size()) - 1};
        const auto logits =
            run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm, .rows = last}, cache)
                .logits[0];
        return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
      };
      Stopwatch start;
      int32_t next = step(prompt);
      best_prompt = std::min(best_prompt, start.seconds());
      start = {};
      for (size_t i = 1; i < kNew; ++i) next = step(std::span(&next, 1));
      best_token = std::min(best_token, start.seconds() / double(kNew - 1));
    } while (begin.seconds() < seconds_or(settings, 5));
    const double rate = double(model.parameters() * bytes_of(weight_format(settings))) / best_token / 1e9;
    if (settings.json) {
      JsonWriter json;
      json.begin_object()
          .field("model", name)
          .field("threads", threads)
          .field("prompt_milliseconds", best_prompt * 1e3)
          .field("milliseconds_per_token", best_token * 1e3)
          .field("tokens_per_second", 1 / best_token)
          .field("gigabytes_per_second", rate);
      print_line(json);
    } else
      print("{:>8}{:>14.1f}{:>14.2f}{:>12.1f}{:>10.1f}\n", threads, best_prompt * 1e3, best_token * 1e3,
            1 / best_token, rate);
    flush_output();
  }
  return 0;
}

// From nothing to the first sentence vector, as a short program meets it: files are in the page cache after
// the first time.
int bench_load(const Settings& settings) {
  if (settings.words.size() < 2)
    throw UsageError("bench load needs a model", "bertie bench load all-MiniLM-L6-v2");
  const ModelFiles model(settings.words[1]);
  std::vector<double> times;
  const Stopwatch begin;
  do {
    const Stopwatch start;
    const TextModel encoder = load(model, {.threads = int(settings.threads.value_or(0)),
                                           .strict = settings.strict,
                                           .format = weight_format(settings)});
    encoder.embed("The bank deposited the money near the river bank.");
    times.push_back(start.seconds());
  } while (times.size() < 5 || begin.seconds() < seconds_or(settings, 2));
  std::sort(times.begin(), times.end());
  const double best = times.front() * 1e3, median = times[times.size() / 2] * 1e3;
  if (settings.json) {
    JsonWriter json;
    json.begin_object()
        .field("milliseconds", best)
        .field("median_milliseconds", median)
        .field("runs", times.size());
    print_line(json);
  } else
    print("load to first embedding: best {:.1f} ms, median {:.1f} ms of {} runs\n", best, median,
          times.size());
  return 0;
}

int bench_tokenize(const Settings& settings) {
  if (settings.words.size() < 2 || !settings.model)
    throw UsageError("bench tokenize needs a tokenizer and a text file",
                     "bertie bench tokenize --model DIR_OR_VOCAB TEXT_FILE");
  // A tokenizer may be a file alone.
  const Tokenizer tokenizer = Tokenizer::load(*settings.model);
  const std::string& path = settings.words[1];
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("cannot read {}", path));
  std::vector<std::string> lines;
  size_t bytes = 0;
  for (std::string line; bytes < (size_t{64} << 20) && std::getline(in, line);)
    bytes += line.size() + 1, lines.push_back(line);
  if (lines.empty()) throw Error(fmt::format("{} has no lines", path));
  Encoding encoding;
  std::vector<double> times;
  size_t tokens = 0;
  const Stopwatch begin;
  do {
    tokens = 0;
    const Stopwatch start;
    for (const std::string& line : lines)
      tokenizer.encode_into(line, {}, encoding), tokens += encoding.size();
    times.push_back(start.seconds());
  } while (times.size() < 3 || begin.seconds() < seconds_or(settings, 2));
  const double best = *std::min_element(times.begin(), times.end());
  if (settings.json) {
    JsonWriter json;
    json.begin_object()
        .field("megabytes_per_second", double(bytes) / best / 1e6)
        .field("tokens_per_second", double(tokens) / best)
        .field("bytes", bytes)
        .field("tokens", tokens);
    print_line(json);
  } else
    print("{:.1f} MB/s, {:.2f} million tokens/s with offsets, one thread ({} tokens in {:.1f} MB)\n",
          double(bytes) / best / 1e6, double(tokens) / best / 1e6, tokens, double(bytes) / 1e6);
  return 0;
}

// The linear layers alone, with weights from beyond the L2 cache as in a real pass.
int bench_gemm(const Settings& settings) {
  struct Shape {
    size_t rows, outputs, inputs;
  };
  constexpr Shape kShapes[] = {{128, 2304, 768},  {128, 768, 768},   {128, 3072, 768}, {128, 768, 3072},
                               {1024, 3072, 768}, {1024, 768, 3072}, {16, 3072, 768},  {1, 3072, 768},
                               {128, 1152, 384},  {128, 384, 384},   {128, 1536, 384}, {128, 384, 1536},
                               {1024, 1536, 384}, {1024, 384, 1536}};
  if (!settings.json)
    print("{:>6}{:>8}{:>8}{:>9}{:>11}{:>10}{:>10}\n", "rows", "outputs", "inputs", "threads", "GFLOP/s",
          "peak", "of peak");
  for (const Shape& s : kShapes)
    for (int threads : thread_counts(settings)) {
      LinearBenchmark layer(s.rows, s.outputs, s.inputs, threads);
      const Speed m =
          measure([&] { layer.run(); }, layer.operations(), threads, {.seconds = seconds_or(settings, 1)});
      const double rate = layer.operations() / m.median;
      if (settings.json) {
        JsonWriter json;
        json.begin_object()
            .field("rows", s.rows)
            .field("outputs", s.outputs)
            .field("inputs", s.inputs)
            .field("threads", threads)
            .field("gflops", rate / 1e9)
            .field("peak_gflops", m.best_peak / 1e9)
            .field("fraction", m.share);
        print_line(json);
      } else
        print("{:>6}{:>8}{:>8}{:>9}{:>11.1f}{:>10.1f}{:>9.1f}%\n", s.rows, s.outputs, s.inputs, threads,
              rate / 1e9, m.best_peak / 1e9, 100 * m.share);
      flush_output();
    }
  return 0;
}

}  // namespace

BatchShape batch_shape(const std::string& name) {
  const size_t x = name.find('x');
  BatchShape shape{};
  if (x == name.npos || !read_number(std::string_view(name).substr(0, x), shape.batch) ||
      !read_number(std::string_view(name).substr(x + 1), shape.length) || shape.batch < 1 ||
      shape.length < 1 || shape.batch > 4096 || shape.length > 512)
    throw UsageError(fmt::format("{} is not a shape", in_quotes(name)),
                     "use BATCHxLENGTH, such as 8x128, or sst2x32");
  return shape;
}

int threads_or_all(const Settings& settings) {
  return settings.threads.value_or(0) > 0 ? int(*settings.threads) : core_count();
}

double seconds_or(const Settings& settings, double standard) {
  return settings.seconds.value_or(0) > 0 ? *settings.seconds : standard;
}

int bench_command(const Settings& settings) {
  const auto what = Benchmark(settings.first_word);
  if (settings.words.size() > 1 && what != Benchmark::kLoad && what != Benchmark::kTokenize)
    throw UsageError(fmt::format("bertie bench {} takes no PATH, but got {}", settings.words[0],
                                 in_quotes(settings.words[1])),
                     fmt::format("bertie bench {}", settings.words[0]));
  switch (what) {
    case Benchmark::kEncode:
      return bench_encode(settings);
    case Benchmark::kGenerate:
      return bench_generate(settings);
    case Benchmark::kPretrain:
      return bench_pretrain(settings);
    case Benchmark::kAttention:
      return bench_attention(settings);
    case Benchmark::kLoad:
      return bench_load(settings);
    case Benchmark::kTokenize:
      return bench_tokenize(settings);
    case Benchmark::kGemm:
      break;
  }
  return bench_gemm(settings);
}

}  // namespace bertie::cli
