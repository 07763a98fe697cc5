// bertie attend
#include <algorithm>
#include <numeric>

#include "bertie/draw.h"
#include "bertie/files.h"
#include "cli/commands/attention_sums.h"
#include "cli/output_file.h"
#include "cli/task.h"
#include "cli/terminal/attention_text.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

void print_top(const std::vector<std::string>& tokens, Matrix<const float> weights, size_t top,
               const Style& style) {
  const std::vector<std::string> labels = unique_labels(tokens);
  size_t widest = 0;
  for (const std::string& label : labels)
    widest = std::max(widest, std::min<size_t>(display_width(label), 20));
  for (size_t i = 0; i < weights.rows(); ++i) {
    std::vector<size_t> order(weights.cols());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return weights(i, a) > weights(i, b); });
    std::string line = "  " + pad(labels[i], widest) + style.dim(" looks at ");
    for (size_t k = 0; k < std::min(top, order.size()); ++k)
      line += fmt::format(" {} {} {}", heat(weights(i, order[k]), 1, style), pad(labels[order[k]], widest),
                          pad_left(fmt::format("{:.0f}%", weights(i, order[k]) * 100), 4));
    print("{}\n", line);
  }
}

// Layers and heads of the options count from 1.
DrawOptions drawn(const Settings& settings) {
  const auto from_0 = [](std::optional<size_t> number) {
    return number ? std::optional(*number - 1) : std::nullopt;
  };
  return {.layer = from_0(settings.layer), .head = from_0(settings.head)};
}

// --html, --svg and --png: whichever were asked for.
void write_pictures(const Settings& settings, const Attention& attention, const std::string& text) {
  const auto write = [&](const std::optional<std::string>& path, const auto& make) {
    if (!path) return;
    const std::string bytes = make();
    write_file(*path, bytes);
    if (settings.verbose) say("{}: {}\n", printable(*path), size_text(bytes.size()));
  };
  write(settings.html, [&] {
    HtmlOptions options{.model = "", .text = text, .pair = {}, .show = drawn(settings)};
    const std::string name = short_model_name(settings);
    options.model = name;
    if (settings.pair) options.pair = *settings.pair;
    return attention_html(attention, options);
  });
  write(settings.svg, [&] { return attention_svg(attention, drawn(settings)); });
  write(settings.png, [&] { return attention_png(attention, drawn(settings)); });
}

}  // namespace

int attend_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("bertie attend needs a text", "bertie attend \"You found me.\"");
  const bool sums = wants_attention_sums(settings);
  const bool everything = settings.json || settings.npy;
  if (everything && !sums && (settings.layer || settings.head || settings.top))
    throw UsageError(fmt::format("{} gives all layers and heads, so --layer, --head and --top have no place",
                                 settings.json ? "--json" : "--npy"),
                     "leave them out; layer L and head H are weights[L-1][H-1] there");
  const bool pictures = settings.html || settings.svg || settings.png;
  if (pictures && settings.head && !settings.layer)
    throw UsageError("a picture of a head needs its layer", "--layer L --head H");
  if (pictures && settings.top)
    throw UsageError("--top is for the terminal, and has no place in a picture", "leave it out");
  for (const auto& path : {settings.npy, settings.html, settings.svg, settings.png})
    if (path) check_output(settings, *path);  // before the work
  const TextModel model = load_model(settings);
  const Config& config = model.model().config();
  check_layer_and_head(settings, config.depth(), config.heads, "this model");
  const std::string text = valid_text(settings, settings.words[0], "the text");
  if (sums) return show_attention_sums(settings, model, text);
  AttendOptions options;
  if (settings.layer && pictures) options.layers = {*settings.layer - 1};
  const Attention attention =
      settings.pair ? model.attend(text, *settings.pair, options) : model.attend(text, options);
  if (pictures) write_pictures(settings, attention, text);
  if (settings.npy) {
    NpyOutput file(settings, {attention.heads, attention.n(), attention.n()});
    file.add(attention.weights);
    file.commit();
    if (settings.verbose)
      say("{}: ({}, {}, {}, {})\n", printable(*settings.npy), attention.layers, attention.heads,
          attention.n(), attention.n());
  }
  if (settings.json) {
    write_json(attention, input_of(text, settings.pair), [](std::string_view piece) { print(piece); });
    print("\n");
  }
  if (everything || pictures) return 0;

  const size_t layer = settings.layer.value_or(attention.layers) - 1;
  const std::vector<float> mean = settings.head ? std::vector<float>() : mean_over_heads(attention, layer);
  const Matrix<const float> weights = settings.head
                                          ? attention.at(layer, *settings.head - 1)
                                          : Matrix<const float>(mean.data(), attention.n(), attention.n());
  const Style style = Style::for_output();
  const std::vector<std::string> tokens = printable_all(attention.tokens);
  print(
      "{}\n",
      wrap(fmt::format(
               "{}, {}: {}", style.bold(fmt::format("layer {} of {}", layer + 1, attention.layers)),
               style.bold(settings.head ? fmt::format("head {} of {}", *settings.head, attention.heads)
                                        : fmt::format("mean of {} heads", attention.heads)),
               settings.top ? "what each token looks at most" : "each row looks at the columns, in percent"),
           output_width()));
  if (settings.top) {
    print_top(tokens, weights, *settings.top, style);
  } else {
    print(heat_table(tokens, weights, style, output_width()));
    print("\n  {}\n", heat_legend(style));
  }
  return 0;
}

}  // namespace bertie::cli
