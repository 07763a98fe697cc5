#pragma once
// Attention as pictures, and as a page that needs nothing but a browser.
//
//   const bertie::Attention attention = model.attend("The bank deposited the money near the river bank.");
//   bertie::attention_svg(attention, {.layer = 4, .head = 2});   // layer 5, head 3, as text
//   bertie::attention_png(attention);                            // all heads, as bytes of a PNG file
//   bertie::attention_html(attention, {.model = "bert-base-uncased", .text = "The bank …"});
//   bertie::heads_html(bertie::analyze_heads(model, sentences), "bert-base-uncased");
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "bertie/export.h"
#include "bertie/heads.h"
#include "bertie/results.h"

namespace bertie {

// From 0. Neither: all heads. A layer: its heads. A layer and a head: that one, with the tokens' names.
struct DrawOptions {
  std::optional<size_t> layer = {}, head = {};
};

// Error where there is no such layer or head, or a head is given without its layer.
BERTIE_API std::string attention_svg(const Attention& attention, const DrawOptions& options = {});
BERTIE_API std::string attention_png(const Attention& attention, const DrawOptions& options = {});

struct HtmlOptions {
  std::string_view model, text;
  std::optional<std::string_view> pair = {};
  DrawOptions show = {};  // what it opens with
};

// The page of `bertie serve`, with these weights in it: it opens from disk, and asks for nothing over any
// network. Error where the weights are too many for a file.
BERTIE_API std::string attention_html(const Attention& attention, const HtmlOptions& options);

// The same page for what `analyze_heads` found: colors, relations, which heads look alike. `model` is its
// name.
BERTIE_API std::string heads_html(const HeadsReport& report, std::string_view model);

}  // namespace bertie
