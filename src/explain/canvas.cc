#include "explain/canvas.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>
#include <span>

#include "bertie/error.h"
#include "explain/glyphs.h"
#include "io/base64.h"

namespace bertie {
namespace {

constexpr Color kStops[] = {{250, 249, 246}, {207, 225, 230}, {134, 184, 207},
                            {63, 134, 180},  {31, 85, 144},   {16, 36, 84}};

// Code points of UTF-8: how wide words are, one letter each.
size_t letters_of(std::string_view words) {
  return size_t(std::ranges::count_if(words, [](char c) { return (uint8_t(c) & 0xC0) != 0x80; }));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
      out += fmt::format("&#{};", int(c));
    else if (uint8_t(c) >= 0x20)  // XML has no other control characters, not even in disguise
      out += c;
  }
  return out;
}

void add_big_endian(std::string& out, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out += char(number >> shift & 0xFF);
}

void add_chunk(std::string& out, std::string_view type, std::string_view data) {
  add_big_endian(out, uint32_t(data.size()));
  std::string body(type);
  body += data;
  out += body;
  add_big_endian(out, uint32_t(crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size()))));
}

std::string png_of(int width, int height, std::span<const Color> pixels) {
  std::string rows;
  rows.reserve(size_t(height) * (3 * size_t(width) + 1));
  for (size_t r = 0; r < size_t(height); ++r) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels[r * size_t(width)].data()), 3 * size_t(width));
  }
  uLongf size = compressBound(uLong(rows.size()));
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
                uLong(rows.size()), Z_BEST_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  std::string header, out = "\x89PNG\r\n\x1a\n";
  add_big_endian(header, uint32_t(width)), add_big_endian(header, uint32_t(height));
  header += std::string("\x08\x02\0\0\0", 5);  // 8 bits of red, green and blue
  add_chunk(out, "IHDR", header), add_chunk(out, "IDAT", packed), add_chunk(out, "IEND", {});
  return out;
}

class SvgCanvas : public Canvas {
 public:
  SvgCanvas(int width, int height) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n",
        width, height);
  }
  void rectangle(int x, int y, int width, int height, Color color, std::string_view title) override {
    out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#{:02x}{:02x}{:02x}\"", x,
                        y, width, height, color[0], color[1], color[2]);
    out_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(title));
  }
  void text(int x, int y, std::string_view words, Align align, bool upwards) override {
    constexpr const char* kAnchors[] = {"start", "middle", "end"};
    out_ += fmt::format(
        "<text transform=\"translate({},{}){}\" text-anchor=\"{}\" dominant-baseline=\"central\" "
        "fill=\"#1b1e24\">{}</text>\n",
        x, y, upwards ? " rotate(-90)" : "", kAnchors[int(align)], escaped(words));
  }
  void picture(int x, int y, std::span<const Color> pixels, int side, int cell) override {
    const std::string png = png_of(side, side, pixels);
    out_ += fmt::format(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"image-rendering:pixelated\" "
        "href=\"data:image/png;base64,{}\"/>\n",
        x, y, side * cell, side * cell, io::base64(std::as_bytes(std::span(png))));
  }
  std::string finish() override { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

class PngCanvas : public Canvas {
 public:
  PngCanvas(int width, int height) : width_(width), height_(height) {
    pixels_.assign(size_t(width) * size_t(height), kPaper);
  }
  void rectangle(int x, int y, int width, int height, Color color, std::string_view) override {
    for (int r = std::max(y, 0); r < std::min(y + height, height_); ++r)
      for (int c = std::max(x, 0); c < std::min(x + width, width_); ++c) at(c, r) = color;
  }
  // Letters of 5 × 8 dots, each dot a pixel wide and one high doubled: 7 × 14 with their gaps.
  void text(int x, int y, std::string_view words, Align align, bool upwards) override {
    const int length = width_of(words), before = align == Align::kStart ? 0
                                                 : align == Align::kEnd ? length
                                                                        : length / 2;
    int along = -before;
    for (size_t i = 0; i < words.size(); ++i) {
      if ((uint8_t(words[i]) & 0xC0) == 0x80) continue;
      const std::span<const uint8_t, kGlyphColumns> glyph = glyph_of(words[i]);
      for (int column = 0; column < int(kGlyphColumns); ++column)
        for (int dot = 0; dot < 8; ++dot)
          if (glyph[size_t(column)] >> dot & 1)
            for (int half = 0; half < 2; ++half) {
              const int a = along + column, b = 2 * dot + half - 7;
              if (upwards)
                ink(x + b, y - a);
              else
                ink(x + a, y + b);
            }
      along += kLetter;
    }
  }
  void picture(int x, int y, std::span<const Color> pixels, int side, int cell) override {
    for (int i = 0; i < side * side; ++i)
      rectangle(x + i % side * cell, y + i / side * cell, cell, cell, pixels[size_t(i)], {});
  }
  std::string finish() override { return png_of(width_, height_, pixels_); }

 private:
  Color& at(int x, int y) { return pixels_[size_t(y) * size_t(width_) + size_t(x)]; }
  void ink(int x, int y) {
    if (x >= 0 && y >= 0 && x < width_ && y < height_) at(x, y) = kInk;
  }
  static constexpr int kLetter = 7;
  int width_, height_;
  std::vector<Color> pixels_;
};

}  // namespace

Color color_of_byte(uint8_t root) {
  const double at = root / 255.0 * double(std::size(kStops) - 1);
  const size_t low = std::min(size_t(at), std::size(kStops) - 2);
  Color color;
  for (size_t c = 0; c < 3; ++c)
    color[c] = uint8_t(kStops[low][c] + (at - double(low)) * (kStops[low + 1][c] - kStops[low][c]) + 0.5);
  return color;
}

int Canvas::width_of(std::string_view words) { return 7 * int(letters_of(words)); }

std::unique_ptr<Canvas> svg_canvas(int width, int height) {
  return std::make_unique<SvgCanvas>(width, height);
}
std::unique_ptr<Canvas> png_canvas(int width, int height) {
  return std::make_unique<PngCanvas>(width, height);
}

}  // namespace bertie
