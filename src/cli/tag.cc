// bertie tag
#include <algorithm>

#include "cli/table.h"
#include "cli/task.h"
#include "tasks/code_points.h"

namespace bertie::cli {
namespace {

Group group_of(const Settings& settings) {
  constexpr Group kAll[] = {Group::kSimple, Group::kNone, Group::kFirst, Group::kAverage, Group::kMax};
  return kAll[choice_of("group", settings.group, {"simple", "none", "first", "average", "max"})];
}

// A colour for each kind of entity.
class Colours {
 public:
  std::string_view of(const std::string& label) {
    static constexpr std::string_view kCodes[] = {"1;36", "1;33", "1;35", "1;32", "1;34", "1;31"};
    const auto known = std::find(labels_.begin(), labels_.end(), label);
    const auto number = size_t(known - labels_.begin());
    if (known == labels_.end()) labels_.push_back(label);
    return kCodes[number % std::size(kCodes)];
  }

 private:
  std::vector<std::string> labels_;
};

// The text with its entities in brackets and in colour.
std::string marked(const CodePoints& text, const std::vector<Entity>& entities, const Style& style,
                   Colours& colours) {
  std::string out;
  uint32_t at = 0;
  for (const Entity& e : entities) {
    if (e.place.begin < at || e.place.begin == e.place.end) continue;
    out += printable(text.at({at, e.place.begin}));
    out += style.paint(colours.of(e.label),
                       fmt::format("[{} {}]", printable(text.at(e.place)), printable(e.label)));
    at = e.place.end;
  }
  return out + printable(text.at({at, uint32_t(text.size())}));
}

void print_json(size_t index, std::string_view text, const CodePoints& points,
                const std::vector<Entity>& entities) {
  std::string line = json_begin(index);
  json_field(line, "text", text);
  json_list(line, "entities", entities, [&](std::string& to, const Entity& e) {
    json_field(to, "label", e.label);
    json_field(to, "score", e.score);
    json_field(to, "text", points.at(e.place));
    json_field(to, "word", e.word);
    json_field(to, "start", size_t{e.place.begin});
    json_field(to, "end", size_t{e.place.end});
    json_field(to, "first_token", e.first_token);
    json_field(to, "tokens", e.tokens);
  });
  print("{}}}\n", line);
}

}  // namespace

int tag_command(const Settings& settings) {
  const TagOptions options{
      .group = group_of(settings), .stride = settings.stride, .keep_outside = settings.keep_outside};
  Inputs inputs(settings);
  Pipeline pipeline = load_pipeline(settings, Head::kTag);
  Progress progress = progress_of(settings, "texts");
  const Style style = Style::for_output();
  Colours colours;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    const auto results = pipeline.tag(texts_of(block), options);
    for (size_t i = 0; i < block.size(); ++i) {
      const CodePoints text(block[i].a);
      if (settings.json) {
        print_json(first + i, block[i].a, text, results[i]);
        continue;
      }
      if (first + i > 0) print("\n");
      print("{}\n", marked(text, results[i], style, colours));
      if (results[i].empty()) {
        print("{}\n", style.dim("  nothing found"));
        continue;
      }
      Table table({"label", "score", "place", "text"}, "lrrl");
      for (const Entity& e : results[i])
        table.add({printable(e.label), percent(e.score), fmt::format("{}-{}", e.place.begin, e.place.end),
                   printable(text.at(e.place))});
      print(table.text(style, output_width()));
    }
  });
  progress.finish(inputs.count());
  return 0;
}

}  // namespace bertie::cli
