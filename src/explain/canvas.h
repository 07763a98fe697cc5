#pragma once
// What drawings are made of: rectangles, pictures and words, to an SVG or to the pixels of a PNG.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bertie {

using Color = std::array<uint8_t, 3>;

inline constexpr Color kPaper{255, 255, 255}, kInk{27, 30, 36}, kFrame{226, 223, 215};

// A weight as a color, by its root: the page's own scale in light colors (web/colors.js).
Color color_of_byte(uint8_t root);

enum class Align { kStart, kMiddle, kEnd };

class Canvas {
 public:
  virtual ~Canvas() = default;
  // `title`: what a reader of an SVG sees when pointing at it.
  virtual void rectangle(int x, int y, int width, int height, Color color, std::string_view title = {}) = 0;
  // side × side pixels, each as a square of `cell`. In an SVG it is one element, however many there are.
  virtual void picture(int x, int y, std::span<const Color> pixels, int side, int cell) = 0;
  // Centered on y, or, going up, on x. Lines are some 14 pixels high.
  virtual void text(int x, int y, std::string_view words, Align align, bool upwards = false) = 0;
  virtual std::string finish() = 0;  // the file
  static int width_of(std::string_view words);
};

std::unique_ptr<Canvas> svg_canvas(int width, int height);
std::unique_ptr<Canvas> png_canvas(int width, int height);

}  // namespace bertie
