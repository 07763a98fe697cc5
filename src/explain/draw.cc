#include "bertie/draw.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/atlas.h"
#include "bertie/error.h"
#include "explain/canvas.h"

namespace bertie {
namespace {

constexpr int kEdge = 12, kTitle = 34, kGap = 5;
constexpr size_t kLongestLabel = 18;   // letters of a token
constexpr size_t kMostCells = 10'000;  // that say their weight when pointed at

using MakeCanvas = std::unique_ptr<Canvas> (*)(int width, int height);

std::string cut(const std::string& token) {
  size_t letters = 0;
  for (size_t i = 0; i < token.size(); ++i)
    if ((uint8_t(token[i]) & 0xC0) != 0x80 && letters++ == kLongestLabel) return token.substr(0, i) + "..";
  return token;
}

// A head's picture, cells of `cell` pixels.
void draw_cells(Canvas& canvas, std::span<const uint8_t> bytes, size_t side, int x, int y, int cell) {
  std::vector<Color> pixels(bytes.size());
  std::ranges::transform(bytes, pixels.begin(), color_of_byte);
  canvas.picture(x, y, pixels, int(side), cell);
}

std::string draw_head(const Attention& a, size_t layer, size_t head, MakeCanvas make) {
  const Matrix<const float> weights = a.at(layer, head);
  const size_t n = a.n();
  const int cell = std::clamp(int(900 / n), 2, 26);
  std::vector<std::string> labels;
  int widest = 0;
  for (const std::string& token : a.tokens) {
    labels.push_back(cut(token));
    widest = std::max(widest, Canvas::width_of(labels.back()));
  }
  const bool labelled = cell >= 14;  // a line's height
  const int margin = kEdge + (labelled ? widest + kGap : 0), top = kTitle + margin - kEdge;
  const int size = cell * int(n);
  const auto canvas = make(margin + size + kEdge, top + size + kEdge);
  canvas->text(kEdge, kTitle / 2, fmt::format("layer {}, head {}: rows look at columns", layer + 1, head + 1),
               Align::kStart);
  const std::vector<uint8_t> bytes = weight_picture(weights, n);
  if (n * n > kMostCells) {
    draw_cells(*canvas, bytes, n, margin, top, cell);
  } else {
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        canvas->rectangle(margin + int(j) * cell, top + int(i) * cell, cell - (cell > 8), cell - (cell > 8),
                          color_of_byte(bytes[i * n + j]),
                          fmt::format("{} to {}: {:.4f}", a.tokens[i], a.tokens[j], weights(i, j)));
  }
  for (size_t i = 0; labelled && i < n; ++i) {
    const int middle = int(i) * cell + cell / 2;
    canvas->text(margin - kGap, top + middle, labels[i], Align::kEnd);
    canvas->text(margin + middle, top - kGap, labels[i], Align::kStart, true);
  }
  return canvas->finish();
}

// The heads of some layers: a row for each layer, or, where there is one, as a block.
std::string draw_heads(const Attention& a, std::span<const size_t> layers, MakeCanvas make) {
  const size_t columns = layers.size() > 1 ? a.heads : std::min<size_t>(a.heads, 4);
  const size_t rows = layers.size() > 1 ? layers.size() : (a.heads + columns - 1) / columns;
  const int wanted = layers.size() > 1 ? 64 : 180;
  const size_t side = std::min<size_t>(a.n(), size_t(wanted));
  const int cell = std::max(1, wanted / int(side)), panel = cell * int(side),
            step = panel + kGap + (layers.size() > 1 ? 0 : 16);
  const int left = kEdge + 22, top = kTitle + 22;
  const auto canvas = make(left + int(columns) * (panel + kGap) + kEdge, top + int(rows) * step + kEdge);
  canvas->text(kEdge, kTitle / 2,
               layers.size() > 1 ? fmt::format("{} layers of {} heads", layers.size(), a.heads)
                                 : fmt::format("layer {}, {} heads", layers[0] + 1, a.heads),
               Align::kStart);
  for (size_t i = 0; i < layers.size() * a.heads; ++i) {
    const size_t layer = layers[i / a.heads], head = i % a.heads;
    const size_t row = layers.size() > 1 ? i / a.heads : head / columns, column = head % columns;
    const int x = left + int(column) * (panel + kGap), y = top + int(row) * step;
    canvas->rectangle(x - 1, y - 1, panel + 2, panel + 2, kFrame);
    draw_cells(*canvas, weight_picture(a.at(layer, head), side), side, x, y, cell);
    if (layers.size() == 1)
      canvas->text(x + panel / 2, y - 9, fmt::format("{}", head + 1), Align::kMiddle);
    else if (row == 0)
      canvas->text(x + panel / 2, top - 11, fmt::format("{}", head + 1), Align::kMiddle);
    if (layers.size() > 1 && column == 0)
      canvas->text(left - 6, y + panel / 2, fmt::format("{}", layer + 1), Align::kEnd);
  }
  return canvas->finish();
}

std::string draw(const Attention& a, const DrawOptions& options, MakeCanvas make) {
  if (options.head && !options.layer) throw Error("a head was given without its layer", "give `layer` too");
  if (options.layer && options.head) return draw_head(a, *options.layer, *options.head, make);
  if (!options.layer) return draw_heads(a, a.kept, make);
  (void)a.at(*options.layer, 0);  // Error where it is not there
  const size_t one[] = {*options.layer};
  return draw_heads(a, one, make);
}

}  // namespace

std::string attention_svg(const Attention& attention, const DrawOptions& options) {
  return draw(attention, options, svg_canvas);
}

std::string attention_png(const Attention& attention, const DrawOptions& options) {
  return draw(attention, options, png_canvas);
}

}  // namespace bertie
