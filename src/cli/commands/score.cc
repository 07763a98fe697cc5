// bertie score
#include <algorithm>
#include <cmath>

#include "bertie/utf8.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr double kRare = -6.9, kBeaten = 4.6;  // one in a thousand; another is 100 times as likely

// The text as far as it was read, with its surprising words marked.
std::string marked(const CodePoints& text, const TextScore& score, const Style& style) {
  std::string out;
  uint32_t at = 0;
  for (size_t t = 0, end = 0; t < score.scores.size(); t = end) {
    double sum = 0, likeliest = 0;  // of the word's pieces
    for (end = t; end < score.scores.size() && score.scores[end].word == score.scores[t].word; ++end)
      sum += score.scores[end].log_probability, likeliest += score.scores[end].likeliest_log_probability;
    const Offset place{score.scores[t].offset.begin, score.scores[end - 1].offset.end};
    if (sum > kRare || likeliest - sum < kBeaten || place.begin < at) continue;
    const std::string word = printable(text.at(place));
    out += printable(text.at({at, place.begin})) + (style.color ? style.error(word) : "*" + word + "*");
    at = place.end;
  }
  if (!score.truncated || score.scores.empty()) return out + printable(text.at({at, uint32_t(text.size())}));
  const uint32_t read = std::max(at, score.scores.back().offset.end);
  return out + printable(text.at({at, read})) + style.dim(" … (not read)");
}

void print_tokens(const TextScore& score, const Style& style) {
  Table table({"chance", "", "token", "likelier"}, "rlll");
  for (const TokenScore& t : score.scores) {
    const auto chance = float(std::exp(t.log_probability));
    const std::string instead =
        fmt::format("{} {}", printable(t.likeliest), percent(float(std::exp(t.likeliest_log_probability))));
    table.add({percent(chance), pad(bar(chance, 12), 12), printable(t.token),
               t.likeliest_id == t.id ? std::string() : instead});
  }
  print(table.text(style, output_width()));
}

// What was read so far, as one text.
struct Sum {
  double log_probability = 0;
  size_t tokens = 0, texts = 0, inputs = 0;
  void add(const TextScore& score) {
    log_probability += score.log_probability(), tokens += score.scores.size();
    texts += !score.scores.empty(), ++inputs;
  }
  double perplexity() const { return std::exp(-log_probability / double(std::max<size_t>(tokens, 1))); }
};

std::string row(double perplexity, const std::string& text) {
  return fmt::format("{:>10}  {}\n", std::isnan(perplexity) ? "-" : fmt::format("{:.2f}", perplexity), text);
}

}  // namespace

int score_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings, TaskKind::kClassify);
  const TextModel model = load_model(settings);
  const Style style = Style::for_output();
  // Those of the command line are few, and ranked; a file's come in its order as they are done.
  const bool ranked = settings.files.empty() && !settings.words.empty() && !settings.json;
  std::vector<std::pair<double, std::string>> rows;
  Sum sum;
  size_t cut_texts = 0;
  ResultOutput output(settings, model.model().config().causal() ? Work::kWrite : Work::kFillMask);
  const std::string header = style.dim(fmt::format("{:>10}  text\n", "perplexity"));
  const int code = for_each_input(
      settings, inputs, {.where = output.where(), .results = output.kept(), .cut = &cut_texts}, model,
      [&](const TextModel& scorer, std::span<const Input> block, const ProgressCallback& progress) {
        return scorer.score(texts_of(block), {.progress = progress});
      },
      [&](const Input& input, const TextScore& score) {
        return settings.json ? to_json(score, input_of(input)) + "\n" : std::string();
      },
      [&](const Input& input, const TextScore& score, const std::string& json) {
        cut_texts += score.truncated;
        sum.add(score);
        if (settings.json) return output.put(json);
        const CodePoints text(input.a);
        if (inputs.only_one() && score.scores.empty()) return;
        if (inputs.only_one()) {
          print("{}\n\n", marked(text, score, style));
          print_tokens(score, style);
          return;
        }
        if (!ranked && sum.inputs == 1) print("{}", header);
        const std::string line = row(score.perplexity(), marked(text, score, style));
        if (!ranked) return print(line);
        rows.emplace_back(score.perplexity(), line);
      });
  // A text without a word has no perplexity (NaN) and comes last.
  const auto rank = [](const auto& row) { return std::isnan(row.first) ? INFINITY : row.first; };
  std::ranges::stable_sort(rows, std::less(), rank);
  if (!rows.empty()) print("{}", header);
  for (const auto& [perplexity, line] : rows) print(line);
  if (sum.tokens == 0 && !settings.json && !settings.quiet) warn("there was no text to read");
  if (!settings.json && sum.tokens > 0)
    print("\nperplexity {:.2f}, log-probability {:.2f} of {} tokens{}\n", sum.perplexity(),
          sum.log_probability, with_commas(sum.tokens),
          sum.texts > 1 ? fmt::format(" of {} texts", with_commas(sum.texts)) : "");
  warn_if_cut(settings, model, cut_texts, inputs.count(), "texts");
  return code;
}

}  // namespace bertie::cli
