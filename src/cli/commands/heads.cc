// bertie heads
#include "bertie/heads.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "bertie/draw.h"
#include "bertie/files.h"
#include "bertie/json_writer.h"
#include "bertie/utf8.h"
#include "cli/output_file.h"
#include "cli/task.h"
#include "cli/terminal/table.h"
#include "cli/terminal/without_heads.h"

namespace bertie::cli {
namespace {

std::string name_of_head(const HeadsReport& r, size_t i) {
  return fmt::format("{}-{}", i / r.heads + 1, i % r.heads + 1);
}
std::string share_text(double share) { return fmt::format("{:.1f}", 100 * share); }

struct Column {
  std::string_view name;
  double HeadShares::*of;
  bool is_share;
};
constexpr Column kColumns[] = {
    {"[CLS]", &HeadShares::cls, true},          {"[SEP]", &HeadShares::sep, true},
    {"punct.", &HeadShares::punctuation, true}, {"previous", &HeadShares::previous, true},
    {"next", &HeadShares::next, true},          {"itself", &HeadShares::self, true},
    {"entropy", &HeadShares::entropy, false},   {"distance", &HeadShares::distance, false}};

std::vector<std::string> cells(std::string first, const HeadShares& s) {
  std::vector<std::string> row{std::move(first)};
  for (const Column& c : kColumns)
    row.push_back(c.is_share ? share_text(s.*c.of) : fmt::format("{:.2f}", s.*c.of));
  return row;
}

void print_shares(const HeadsReport& r, bool each, const Style& style) {
  std::vector<std::string> headings{each ? "head" : "layer"};
  for (const Column& c : kColumns) headings.emplace_back(c.name);
  Table table(headings, "rrrrrrrrr");
  for (size_t l = 0; l < r.layers; ++l) {
    HeadShares mean;
    double there = 0;
    for (size_t h = 0; h < r.heads; ++h) there += !r.at({l, h}).pruned;
    for (size_t h = 0; h < r.heads; ++h) {
      const HeadShares& s = r.at({l, h});
      if (s.pruned) continue;
      if (each) table.add(cells(fmt::format("{}-{}", l + 1, h + 1), s));
      for (const Column& c : kColumns) mean.*c.of += s.*c.of / there;
    }
    if (!each) table.add(cells(std::to_string(l + 1), mean));
  }
  print("{}\n", style.bold(each ? "What each head looks at, in percent"
                                : "What layers look at, in percent, mean over heads"));
  print(table.text(style, output_width()));
  print("\n{}\n", style.bold("The heads that look there most"));
  Table best({"at", "heads"}, "ll");
  for (const Column& c : kColumns) {
    if (!c.is_share) continue;
    std::vector<size_t> order;
    for (size_t i = 0; i < r.shares.size(); ++i)
      if (!r.shares[i].pruned) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return r.shares[a].*c.of > r.shares[b].*c.of; });
    std::string heads;
    for (size_t i = 0; i < std::min<size_t>(4, order.size()); ++i)
      heads += fmt::format("{}{} {}%", i > 0 ? ", " : "", name_of_head(r, order[i]),
                           share_text(r.shares[order[i]].*c.of));
    best.add({std::string(c.name), heads});
  }
  print(best.text(style, output_width()));
}

void print_relations(const HeadsReport& r, const Style& style) {
  if (r.relations.empty()) return;
  print("\n{}\n", style.bold("The head that finds each relation best, in percent"));
  Table table({"relation", "count", "head", "", "right", "offset", "right", "random"}, "lrrlrrrr");
  for (const RelationScore& s : r.relations)
    table.add({printable(s.relation), with_commas(s.count),
               fmt::format("{}-{}", s.head.layer + 1, s.head.head + 1), s.from_head ? "←" : "→",
               share_text(s.accuracy), fmt::format("{:+d}", s.offset), share_text(s.offset_accuracy),
               s.random_accuracy ? share_text(*s.random_accuracy) : ""});
  print(table.text(style, output_width()));
}

void print_alike(const HeadsReport& r, const Style& style) {
  const size_t n = r.layers * r.heads;
  if (r.divergence.empty() || n < 2) return;
  std::vector<std::pair<float, size_t>> pairs;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = a + 1; b < n; ++b)
      if (!std::isnan(r.divergence[a * n + b])) pairs.emplace_back(r.divergence[a * n + b], a * n + b);
  const size_t shown = std::min<size_t>(5, pairs.size());
  std::partial_sort(pairs.begin(), pairs.begin() + ptrdiff_t(shown), pairs.end());
  double inside = 0, outside = 0;
  size_t inside_count = 0, outside_count = 0;
  for (const auto& [divergence, at] : pairs) {
    const bool same_layer = at / n / r.heads == at % n / r.heads;
    (same_layer ? inside : outside) += double(divergence);
    ++(same_layer ? inside_count : outside_count);
  }
  print("\n{}\n", style.bold("Heads that do the same (Jensen-Shannon divergence, in nats)"));
  std::string line;
  for (size_t i = 0; i < shown; ++i)
    line += fmt::format("{}{} and {} {:.3f}", i > 0 ? ", " : "", name_of_head(r, pairs[i].second / n),
                        name_of_head(r, pairs[i].second % n), pairs[i].first);
  print("{}\nmean within a layer {:.3f}, between layers {:.3f}\n", line,
        inside / double(std::max<size_t>(inside_count, 1)),
        outside / double(std::max<size_t>(outside_count, 1)));
}

void print_ablation(const HeadsReport& r, const Style& style) {
  if (!r.ablation) return;
  const HeadAblation& a = *r.ablation;
  print("\n{}\n", style.bold(fmt::format("Without a head: loss {:.4f} with all, over {} masked tokens",
                                         a.loss, with_commas(a.tokens))));
  print_without_heads({"loss", true, a.loss, r.heads, a.without}, style);
}

// GAP's columns: ID, Text, Pronoun, its offset, A, its offset, whether it is A, and the same of B.
std::vector<PronounExample> read_gap(const std::string& file, size_t most) {
  const std::string all = read_whole(file);
  std::vector<PronounExample> examples;
  std::istringstream lines(all);
  std::string line;
  for (size_t number = 1; std::getline(lines, line) && examples.size() < most; ++number) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    for (std::string field; std::getline(row, field, '\t');) fields.push_back(field);
    if (number == 1 && fields.size() > 1 && fields[1] == "Text") continue;
    const auto place = [&](size_t text, size_t offset, Offset& out) {
      size_t begin = 0;
      if (!read_number(fields[offset], begin) || begin > UINT32_MAX / 2) return false;
      out = {uint32_t(begin), uint32_t(begin + CodePoints(fields[text]).size())};
      return text_at(fields[1], out) == fields[text];
    };
    PronounExample example;
    if (fields.size() < 10 || !place(2, 3, example.pronoun) || !place(4, 5, example.a) ||
        !place(7, 8, example.b))
      throw Error(fmt::format("{}, line {}: this is no row of GAP", in_quotes(file), number),
                  "columns ID, Text, Pronoun, Pronoun-offset, A, A-offset, A-coref, B, B-offset, B-coref");
    example.text = fields[1], example.is_a = fields[6] == "TRUE";
    if ((fields[6] == "TRUE") != (fields[9] == "TRUE"))
      examples.push_back(std::move(example));  // else it is neither
  }
  if (examples.empty())
    throw Error(fmt::format("{} has no pronoun that means one of two names", in_quotes(file)));
  return examples;
}

// How far the work is.
ProgressCallback progress_on(ProgressLine& line, std::string_view what) {
  return [&line, what](size_t done, size_t of) {
    throw_if_stopped();
    if (!line.is_due()) return;
    const double now = line.seconds();
    line.show(with_share(
        fmt::format("{} of {} {}, {:.0f}/s", with_commas(done), with_commas(of), what, double(done) / now),
        double(done), double(of), now));
  };
}

int show_coreference(const Settings& settings) {
  refuse({{settings.data.has_value(), "data"},
          {!settings.files.empty(), "file"},
          {settings.ablate.has_value(), "ablate"},
          {settings.html.has_value(), "html"},
          {settings.each, "each"}},
         "not for --gap");
  const std::vector<PronounExample> examples = read_gap(*settings.gap, settings.n.value_or(SIZE_MAX));
  const TextModel model = load_model(settings);
  ProgressLine line(settings, false);
  HeadsOptions options{.random_model = !settings.no_random, .seed = settings.seed.value_or(1)};
  options.progress = progress_on(line, "texts");
  const CoreferenceScore s = judge_coreference(model, examples, options);
  line.finish(fmt::format("{} texts in {:.1f} s", with_commas(s.count), line.seconds()));
  if (settings.json) {
    JsonWriter json;
    json.begin_object()
        .field("model", model_name(settings))
        .field("count", s.count)
        .field("too_long", s.too_long);
    json.field("layer", s.head.layer + 1).field("head", s.head.head + 1).field("from_name", s.from_name);
    json.field("accuracy", s.accuracy).field("nearest_accuracy", s.nearest_accuracy);
    if (s.random_accuracy) json.field("random_accuracy", *s.random_accuracy);
    print(json.end_object().take() + "\n");
    return 0;
  }
  print("{} pronouns that mean one of two names\n", with_commas(s.count));
  Table table({"", "right"}, "lr");
  table.add({fmt::format("head {}-{}: {}", s.head.layer + 1, s.head.head + 1,
                         s.from_name ? "the name that looks more at the pronoun"
                                     : "the name that the pronoun looks at more"),
             share_text(s.accuracy)});
  table.add({"the nearer name", share_text(s.nearest_accuracy)});
  if (s.random_accuracy) table.add({"the best head with random weights", share_text(*s.random_accuracy)});
  print(table.text(Style::for_output(), output_width()));
  return 0;
}

}  // namespace

int heads_command(const Settings& settings) {
  if (settings.gap) return show_coreference(settings);
  const bool treebank = settings.data.has_value();
  if (treebank && (!settings.words.empty() || !settings.files.empty()))
    throw UsageError("--data has the sentences, so TEXT and --file have no place", "leave them out");
  if (settings.html) {  // before the work
    check_not_read(settings, *settings.html, {settings.data.value_or("")});
    check_output(settings, *settings.html);
  }
  std::vector<ParsedSentence> sentences;
  std::vector<std::string> texts;
  const size_t most = settings.n.value_or(SIZE_MAX);
  if (treebank) {
    sentences = read_conllu(*settings.data);
    if (sentences.size() > most) sentences.resize(most);
  } else {
    Inputs inputs(settings);
    for (Input input; texts.size() < most && inputs.next(input);)
      if (!input.a.empty()) texts.push_back(input.a);
    if (texts.empty()) throw Error("there is no text to look at", "a text with at least one word");
  }
  const TextModel model =
      load_model(settings, settings.ablate.value_or(0) > 0 ? Work::kFillMask : Work::kRead);
  ProgressLine line(settings, false);
  HeadsOptions options{.random_model = !settings.no_random,
                       .ablation_tokens = settings.ablate.value_or(0),
                       .seed = settings.seed.value_or(1)};
  options.progress = progress_on(line, "sentences");
  const HeadsReport report =
      treebank ? analyze_heads(model, sentences, options) : analyze_heads(model, texts, options);
  line.finish(fmt::format("{} sentences, {} tokens in {:.1f} s", with_commas(report.sentences),
                          with_commas(report.tokens), line.seconds()));
  if (settings.html) {
    write_file(*settings.html, heads_html(report, short_model_name(settings)));
  }
  if (settings.json) print(to_json(report, model_name(settings)) + "\n");
  if (settings.json || settings.html) return 0;
  const Style style = Style::for_output();
  print("{} layers of {} heads, over {} sentences of {} tokens{}\n\n", report.layers, report.heads,
        with_commas(report.sentences), with_commas(report.tokens),
        report.too_long ? fmt::format("; {} were too long", report.too_long) : "");
  print_shares(report, settings.each, style);
  print_relations(report, style);
  print_alike(report, style);
  print_ablation(report, style);
  return 0;
}

}  // namespace bertie::cli
