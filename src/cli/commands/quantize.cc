// bertie quantize
#include "bertie/quantize.h"

#include "bertie/bench.h"
#include "bertie/json_writer.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

constexpr size_t kMostTexts = 200;

std::vector<std::string> texts_of(const Settings& settings) {
  std::vector<std::string> texts;
  if (settings.files.empty()) return texts;
  Settings lines = settings;  // the words are folders
  lines.words.clear();
  Inputs inputs(lines);
  for (Input input; texts.size() < kMostTexts && inputs.next(input);)
    if (!input.a.empty()) texts.push_back(input.a);
  if (texts.size() < 2)
    throw UsageError("--data has fewer than two texts", "some fifty lines as the model will read them");
  return texts;
}

}  // namespace

int quantize_command(const Settings& settings) {
  if (settings.words.size() < 2)
    throw UsageError("quantize needs a model and the folder to write",
                     "bertie quantize bert-base-uncased bert-int8");
  const Stopwatch watch;
  const Quantized done = quantize({.from = settings.words[0],
                                   .to = settings.words[1],
                                   .texts = texts_of(settings),
                                   .force = settings.force});
  if (settings.json) {
    JsonWriter json;
    json.begin_object()
        .field("to", settings.words[1])
        .field("bytes_before", done.bytes_before)
        .field("bytes", done.bytes)
        .field("tokens", done.tokens)
        .field("mean_cosine", done.mean_cosine)
        .field("worst_cosine", done.worst_cosine);
    print(json.end_object().take() + "\n");
    return 0;
  }
  print("{}: {:.1f} MB of weights, {:.0f}% of {:.1f} MB, in {:.1f} s\n", printable(settings.words[1]),
        double(done.bytes) / 1e6, 100 * double(done.bytes) / double(done.bytes_before),
        double(done.bytes_before) / 1e6, watch.seconds());
  print(
      "tokens' last states beside those of fp32: cosine {:.4f} in the mean, {:.4f} at worst, of {} tokens\n",
      done.mean_cosine, done.worst_cosine, with_commas(done.tokens));
  return 0;
}

}  // namespace bertie::cli
