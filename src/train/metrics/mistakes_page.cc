// Mistakes as a page to read: one file, no script, nothing from outside, light or dark as the reader has it.
#include <fmt/format.h>

#include <cmath>

#include "bertie/evaluate.h"
#include "bertie/utf8.h"

namespace bertie {
namespace {

// Text of strangers: nothing in it is markup, nothing hides or turns around what stands there.
std::string escaped_html(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const uint32_t value = point.value;
    if (value == '&')
      out += "&amp;";
    else if (value == '<')
      out += "&lt;";
    else if (value == '>')
      out += "&gt;";
    else if (value == '"')
      out += "&quot;";
    else if (value == '\'')
      out += "&#39;";
    else if (misleads(value) || (value < 0x20 && value != '\n' && value != '\t') ||
             (value >= 0x7F && value < 0xA0))
      out += fmt::format("<i>U+{:04X}</i>", value);
    else if (!point.valid)
      out += "\uFFFD";
    else
      out += text.substr(0, point.length);
    text.remove_prefix(point.length);
  }
  return out;
}

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mistakes</title>
<style>
:root { color-scheme: light dark; --line: #d0d4da; --soft: #5b6470; --right: #156b2e; --wrong: #a3241b; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a4048; --soft: #a0a8b2; --right: #7fd495; --wrong: #ff9c92; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 1rem; margin: 0; font-weight: normal; color: var(--soft); }
article { border-top: 1px solid var(--line); padding: .8rem 0; }
p, dd, summary + div { white-space: pre-wrap; overflow-wrap: anywhere; }
p { margin: .3rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; margin: .3rem 0; }
dt { color: var(--soft); }
dd { margin: 0; }
.right { color: var(--right); }
.wrong { color: var(--wrong); }
i { color: var(--soft); }
</style>
</head>
<body>
)";

std::string shown_score(const NamedScore& score) {
  if (std::isnan(score.value)) return fmt::format("{} not defined", score.name);
  return fmt::format("{} {:.4f}", score.name, score.value);
}

std::string answer_or(const std::string& text, std::string_view otherwise) {
  return text.empty() ? fmt::format("<i>{}</i>", otherwise) : escaped_html(text);
}

std::string article(const Mistake& mistake, const Dataset& data) {
  const bool number =
      data.problem == Problem::kRegression && data.kind != TaskKind::kTag && data.kind != TaskKind::kAnswer;
  const std::string_view nothing = data.kind == TaskKind::kAnswer ? "no answer" : "none";
  std::string out = "<article>\n<h2>";
  out += mistake.line > 0 ? fmt::format("line {}", mistake.line) : fmt::format("row {}", mistake.row + 1);
  out += number ? fmt::format(", {:.4g} away", mistake.confidence)
                : fmt::format(", {:.1f}% sure", 100 * mistake.confidence);
  out += fmt::format("</h2>\n<p>{}</p>\n", escaped_html(mistake.a));
  if (data.kind == TaskKind::kAnswer)
    out +=
        fmt::format("<details><summary>context</summary><div>{}</div></details>\n", escaped_html(mistake.b));
  else if (!mistake.b.empty())
    out += fmt::format("<p>{}</p>\n", escaped_html(mistake.b));
  out += fmt::format(
      "<dl><dt>right</dt><dd class=\"right\">{}</dd><dt>predicted</dt><dd class=\"wrong\">{}</dd></dl>\n",
      answer_or(mistake.right, nothing), answer_or(mistake.predicted, nothing));
  return out + "</article>\n";
}

}  // namespace

std::string mistakes_page(const Dataset& data, const Evaluation& evaluation,
                          const std::vector<Mistake>& mistakes) {
  std::string out(kHead);
  out += fmt::format("<h1>The {} surest mistakes of {} rows</h1>\n", mistakes.size(), evaluation.rows);
  std::string line = data.file.empty() ? "" : escaped_html(data.file) + ": ";
  for (size_t i = 0; i < evaluation.scores.size(); ++i)
    line += fmt::format("{}{}", i > 0 ? ", " : "", shown_score(evaluation.scores[i]));
  out += fmt::format("<p>{}</p>\n", line);
  for (const Mistake& mistake : mistakes) out += article(mistake, data);
  return out + "</body>\n</html>\n";
}

}  // namespace bertie
