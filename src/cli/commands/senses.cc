// bertie senses
#include "bertie/senses.h"

#include <algorithm>
#include <cmath>

#include "bertie/utf8.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr size_t kMostPlaces = 500;     // groups take time in the cube of them
constexpr double kDistinct = 0.05;      // groups with a lesser silhouette are none
constexpr size_t kBarWidth = 16, kLeastBarWidth = 6;

std::string letter_of(size_t group) {
  return group < 26 ? std::string(1, char('A' + group)) : fmt::format("#{}", group + 1);
}

// Each place with what stands around it, and its group where there are several.
void print_places(const Senses& s, const std::vector<std::string>& texts, const std::vector<size_t>& groups,
                  bool grouped, const Style& style) {
  const size_t width = std::max<size_t>(output_width(), 32) - (grouped ? 12 : 10);
  for (size_t i = 0; i < s.places.size(); ++i) {
    const CodePoints text(texts[s.places[i].text]);
    const Offset at = s.places[i].offset;
    // All of the text where it fits, else what is around the word.
    const size_t most = std::max<size_t>(width, at.end - at.begin);
    const size_t spare = most - (at.end - at.begin), before = std::min<size_t>(at.begin, spare / 2);
    const size_t after = std::min<size_t>(text.size() - at.end, spare - before);
    const auto first = uint32_t(at.begin - std::min<size_t>(at.begin, spare - after));
    const auto last = uint32_t(at.end + after);
    print("  {} {} {}{}{}\n", pad_left(std::to_string(i + 1), 3),
          grouped ? style.numbered(groups[i], letter_of(groups[i])) + " " : std::string(),
          printable(text.at({first, at.begin})),
          style.numbered(groups[i], "[" + printable(text.at(at)) + "]"), printable(text.at({at.end, last})));
  }
}

// The mean cosine of two places in one group, and in two; layer by layer.
struct Means {
  double inside = 0, between = 0;
  size_t inside_pairs = 0, between_pairs = 0;
};

Means means_at(const Senses& s, size_t layer, const std::vector<size_t>& groups) {
  const std::vector<float> cosines = s.cosines(layer);
  const size_t n = s.places.size();
  Means m;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j)
      if (groups[i] == groups[j])
        m.inside += double(cosines[i * n + j]), ++m.inside_pairs;
      else
        m.between += double(cosines[i * n + j]), ++m.between_pairs;
  m.inside /= double(std::max<size_t>(m.inside_pairs, 1)),
      m.between /= double(std::max<size_t>(m.between_pairs, 1));
  return m;
}

void print_layers(const Senses& s, const std::vector<size_t>& groups, size_t chosen, const Style& style) {
  const Means any = means_at(s, 0, groups);
  const bool inside = any.inside_pairs > 0, between = any.between_pairs > 0;
  std::vector<std::string> titles{"layer"};
  if (inside) titles.insert(titles.end(), {between ? "same" : "cosine", ""});
  if (between) titles.insert(titles.end(), {"other", ""});
  Table table(titles, inside && between ? "rrlrl" : "rrl");
  const size_t bars = inside && between ? 2 : 1, taken = 5 + 2 + bars * (2 + 5 + 2);
  const size_t width =
      std::clamp((std::max(output_width(), taken) - taken) / bars, kLeastBarWidth, kBarWidth);
  for (size_t layer = 0; layer <= s.layers; ++layer) {
    const Means m = means_at(s, layer, groups);
    std::vector<std::string> row{std::to_string(layer)};
    const auto add = [&](double cosine) {
      row.push_back(fmt::format("{:.3f}", cosine));
      row.push_back(pad(bar(float(std::max(0.0, cosine)), width), width));
    };
    if (inside) add(m.inside);
    if (between) add(m.between);
    if (layer == chosen && inside && between) row.back() += " <";
    table.add(std::move(row));
  }
  print("\n{}", style.dim(wrap(inside && between
                                   ? "mean cosine of two places of the same group, and of others; of a "
                                     "static vector 1.000 everywhere. Layer 0 is the word and its place; < "
                                     "marks the layer that groups are of"
                                   : "mean cosine of two places; of a static vector 1.000 everywhere. Layer "
                                     "0 is the word and its place",
                               output_width())));
  print(table.text(style, output_width()));
}

// The places by their numbers in the plane in which they differ most.
void print_map(const Senses& s, size_t layer, const std::vector<size_t>& groups, const Style& style) {
  constexpr size_t kHeight = 12;
  const size_t width = std::min<size_t>(output_width(), 72) - 2, n = s.places.size();
  const std::vector<float> plane = s.plane(layer);
  float low[2] = {plane[0], plane[1]}, high[2] = {plane[0], plane[1]};
  for (size_t i = 0; i < 2 * n; ++i) {
    low[i % 2] = std::min(low[i % 2], plane[i]);
    high[i % 2] = std::max(high[i % 2], plane[i]);
  }
  const auto cell = [&](size_t i, size_t axis, size_t cells) {
    const float span = high[axis] - low[axis];
    return span > 0 ? size_t(std::lround((plane[2 * i + axis] - low[axis]) / span * float(cells - 1)))
                    : cells / 2;
  };
  std::vector<std::vector<std::string>> rows(kHeight, std::vector<std::string>(width, " "));
  for (size_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i + 1);
    std::vector<std::string>& row = rows[kHeight - 1 - cell(i, 1, kHeight)];
    const size_t wanted = cell(i, 0, width - number.size() + 1);
    const auto is_free = [&](size_t from) {  // with room on both sides, so that numbers stay apart
      const size_t first = from > 0 ? from - 1 : 0, end = from + number.size();
      return end <= width &&
             std::all_of(row.begin() + ptrdiff_t(first), row.begin() + ptrdiff_t(std::min(end + 1, width)),
                         [](const std::string& c) { return c == " "; });
    };
    size_t at = wanted;
    for (size_t away = 0; away < width && !is_free(at); ++away)
      at = wanted >= away && is_free(wanted - away) ? wanted - away : wanted + away;
    if (!is_free(at)) continue;  // as many as fit
    for (size_t k = 0; k < number.size(); ++k)
      row[at + k] = style.numbered(groups[i], std::string(1, number[k]));
  }
  print("\n{}", style.dim(wrap(
                    fmt::format("the places after layer {}, in the plane in which they differ most", layer),
                    output_width())));
  for (const std::vector<std::string>& row : rows) print("  {}\n", fmt::format("{}", fmt::join(row, "")));
}

// A text as far as the model reads it, with the word in its middle, and where it begins.
struct Passage {
  std::string text;
  uint32_t begin = 0;
};
Passage passage_around(const std::string& text, const Offset& place, const TextModel& model) {
  const Encoding all = model.tokenizer().encode(text);
  const size_t most = model.model().config().max_tokens();
  if (all.size() <= most) return {text};
  const size_t room = most - std::min<size_t>(most - 1, 8);  // [CLS], [SEP], and words that are cut into more pieces
  size_t at = 0;
  while (at + 1 < all.size() && (all.special(at) || all.offsets[at].end <= place.begin)) ++at;
  const size_t first = std::min(at - std::min(at, room / 2), all.size() - room), last = first + room - 1;
  const auto end_of = [&](size_t t) { return all.special(t) ? uint32_t(CodePoints(text).size()) : all.offsets[t].end; };
  const uint32_t begin = all.special(first) ? 0 : all.offsets[first].begin;
  return {std::string(CodePoints(text).at({begin, end_of(last)})), begin};
}

}  // namespace

int senses_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("senses needs a word, and texts with it", "bertie senses bank TEXT TEXT");
  Settings rest = settings;
  const std::string word = settings.words[0];
  rest.words.erase(rest.words.begin());
  Inputs inputs(rest);
  const TextModel model = load_model(settings);
  check_layer_and_head(settings, model.model().config().depth(), 1, "this model");
  std::vector<std::string> texts;
  std::vector<size_t> numbers;  // of the texts among all inputs
  std::vector<uint32_t> begins;  // of what is read of each
  size_t without = 0, places = 0;
  // A text that was typed is meant to have the word, and to be short enough; lines may be.
  const bool typed = !rest.words.empty() || settings.strict;
  for (Input input; inputs.next(input);) {
    if (input.a.empty()) continue;
    Passage passage{input.a};
    if (!typed) {
      const std::vector<Offset> found = places_of_word(input.a, word);
      if (found.empty()) {
        ++without;
        continue;
      }
      passage = passage_around(input.a, found.front(), model);
      const size_t count = places_of_word(passage.text, word).size();
      if (count == 0) continue;  // a word longer than the model reads
      if (places + count > kMostPlaces) {
        if (!settings.quiet)
          warn(fmt::format("the first {} places were taken, no more", with_commas(places)), "other texts, for other places");
        break;
      }
      places += count;
    }
    texts.push_back(std::move(passage.text));
    numbers.push_back(input.index);
    begins.push_back(passage.begin);
  }
  if (texts.empty())
    throw UsageError(without > 0 ? fmt::format("none of {} texts has the word {}", without, in_quotes(word))
                                 : std::string("there is no text to read"),
                     "texts with the word");
  if (without > 0 && !settings.quiet)
    warn(fmt::format("{} of {} texts do not have the word and were left out", with_commas(without),
                     with_commas(without + texts.size())));
  Senses s = senses(model, word, texts, kMostPlaces);
  if (s.places.size() < 2)
    throw UsageError(fmt::format("{} stands in one place: there is nothing to compare", in_quotes(word)),
                     "another text with it, or a text that has it twice");
  const size_t layer = settings.layer.value_or(s.clearest_layer());
  if (settings.json) {
    for (Senses::Place& place : s.places) {
      place.offset.begin += begins[place.text], place.offset.end += begins[place.text];
      place.text = numbers[place.text];
    }
    print(to_json(s, word, layer) + "\n");
    return inputs.report("texts");
  }
  const Style style = Style::for_output();
  std::vector<size_t> groups = s.clusters(layer);
  const double distinct = s.places.size() > 2 ? s.silhouette(layer, groups) : 0;
  const bool grouped = distinct >= kDistinct;
  std::string found;
  if (grouped)
    found = fmt::format(": {} groups by the vectors after layer {} (silhouette {:.2f})",
                        *std::ranges::max_element(groups) + 1, layer, distinct);
  else if (s.places.size() > 2)
    found = ": one group, for no layer tells them apart";
  if (!grouped) std::ranges::fill(groups, size_t{0});
  print("{}\n",
        wrap(fmt::format("{} in {} places{}", printable(word), s.places.size(), found), output_width()));
  print_places(s, texts, groups, grouped, style);
  print_layers(s, groups, layer, style);
  if (s.places.size() > 2) print_map(s, layer, groups, style);
  return inputs.report("texts");
}

}  // namespace bertie::cli
