#include "explain/page.h"

#include <fmt/format.h>

#include <vector>

#include "bertie/atlas.h"
#include "bertie/draw.h"
#include "bertie/error.h"
#include "bertie/json.h"
#include "io/base64.h"
#include "io/sha.h"

namespace bertie {
namespace {

constexpr std::string_view kStyleLink = "<link rel=\"stylesheet\" href=\"web/style.css\">";
constexpr std::string_view kScriptLink = "<script type=\"module\" src=\"web/app.js\"></script>";

void replace(std::string& text, std::string_view what, std::string_view with) {
  const size_t at = text.find(what);
  if (at == text.npos) throw Error(fmt::format("the page has no {}", what));
  text.replace(at, what.size(), with);
}

// import { a, b } from "./x.js";   →   const { a, b } = modules["x.js"];
std::string import_as_constant(std::string_view line) {
  const size_t from = line.find(" from \"./"), end = line.rfind("\";");
  if (from == line.npos || end == line.npos)
    throw Error(fmt::format("not an import that a page of one file can have: {}", line));
  return fmt::format("const {} = modules[\"{}\"];", line.substr(7, from - 7),
                     line.substr(from + 9, end - from - 9));
}

// The name that "function name(" or "const name =" gives.
std::string_view declared_name(std::string_view declaration) {
  for (std::string_view word : {"async ", "function ", "const ", "class "})
    if (declaration.starts_with(word)) declaration.remove_prefix(word.size());
  return declaration.substr(0, declaration.find_first_of(" (={;"));
}

// One script of all modules: browsers do not load modules from disk. Each becomes a function that gives what
// the module exports, so that names of different modules do not meet. Imports and exports start a line.
std::string one_script() {
  std::string out = "const modules = {};\n";
  for (const PageFile& file : page_files()) {
    if (!file.name.ends_with(".js")) continue;
    out += fmt::format("modules[\"{}\"] = (() => {{\n", file.name);
    std::string exports;
    for (size_t at = 0; at < file.text.size();) {
      size_t end = file.text.find('\n', at);
      if (end == file.text.npos) end = file.text.size();
      std::string_view line = file.text.substr(at, end - at);
      at = end + 1;
      if (line.starts_with("import ")) {
        out += import_as_constant(line);
      } else if (line.starts_with("export ")) {
        line.remove_prefix(7);
        exports += fmt::format("{}{}", exports.empty() ? "" : ", ", declared_name(line));
        out += line;
      } else {
        out += line;
      }
      out += '\n';
    }
    out += fmt::format("return {{ {} }};\n}})();\n", exports);
  }
  return out;
}

// What a Content-Security-Policy calls a script or a style.
std::string policy_name(std::string_view text) {
  io::Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  const std::string hex = hash.hex();
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(std::byte(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return fmt::format("'sha256-{}'", io::base64(bytes));
}

// The page with these data in it. `start` are attributes that say what it opens with.
std::string page_with(std::string_view json, std::string_view start) {
  std::string data;
  for (char c : json)
    if (c == '<')
      data += "\\u003c";  // no token ends the element that it lies in
    else
      data += c;
  const std::string script = one_script(), style = fmt::format("\n{}", page_file("style.css"));
  std::string page(page_file("index.html"));
  replace(page, kStyleLink,
          fmt::format(
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; "
              "style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n<style>{}</style>",
              policy_name(script), policy_name(style), style));
  replace(page, kScriptLink, "");
  replace(page, "</body>",
          fmt::format(
              "<script type=\"application/json\" id=\"bertie-data\"{}>{}</script>\n<script type=\"module\">{}"
              "</script>\n</body>",
              start, data, script));
  return page;
}

}  // namespace

std::string_view page_file(std::string_view name) {
  for (const PageFile& file : page_files())
    if (file.name == name) return file.text;
  return {};
}

std::string attention_html(const Attention& attention, const HtmlOptions& options) {
  const std::string json =
      to_json(atlas(attention), attention,
              {.model = options.model, .text = options.text, .pair = options.pair, .weights = true});
  std::string start =
      fmt::format(" data-layer=\"{}\" data-head=\"{}\"",
                  options.show.layer.value_or(attention.kept.back()) + 1, options.show.head.value_or(0) + 1);
  if (options.show.layer && !options.show.head) start += " data-source=\"mean\"";
  return page_with(json, start);
}

std::string heads_html(const HeadsReport& report, std::string_view model) {
  return page_with(to_json(report, model), " data-view=\"heads\"");
}

}  // namespace bertie
