// bertie tag
#include <algorithm>

#include "cli/table.h"
#include "cli/task.h"
#include "tasks/code_points.h"

namespace bertie::cli {
namespace {

Aggregation aggregation_of(const Settings& settings) {
  constexpr Aggregation kAll[] = {Aggregation::kSimple, Aggregation::kNone, Aggregation::kFirst,
                                  Aggregation::kAverage, Aggregation::kMax};
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
    if (e.offset.begin < at || e.offset.begin == e.offset.end) continue;
    out += printable(text.at({at, e.offset.begin}));
    out += style.paint(colours.of(e.label),
                       fmt::format("[{} {}]", printable(text.at(e.offset)), printable(e.label)));
    at = e.offset.end;
  }
  return out + printable(text.at({at, uint32_t(text.size())}));
}

}  // namespace

int tag_command(const Settings& settings) {
  const TagOptions options{.aggregation = aggregation_of(settings),
                           .stride = settings.stride,
                           .keep_outside = settings.keep_outside};
  Inputs inputs(settings);
  const TextModel model = load_model(settings, Head::kTag);
  Progress progress = progress_of(settings, "texts");
  const Style style = Style::for_output();
  Colours colours;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    const auto results = model.tag(texts_of(block), options);
    for (size_t i = 0; i < block.size(); ++i) {
      const CodePoints text(block[i].a);
      const std::vector<Entity>& entities = results[i].entities;
      if (settings.json) {
        print(to_json(results[i], input_of(first + i, block[i])) + "\n");
        continue;
      }
      if (first + i > 0) print("\n");
      print("{}\n", marked(text, entities, style, colours));
      if (entities.empty()) {
        print("{}\n", style.dim("  nothing found"));
        continue;
      }
      Table table({"label", "score", "place", "text"}, "lrrl");
      for (const Entity& e : entities)
        table.add({printable(e.label), percent(e.score), fmt::format("{}-{}", e.offset.begin, e.offset.end),
                   printable(e.text)});
      print(table.text(style, output_width()));
    }
  });
  progress.finish(inputs.count());
  return 0;
}

}  // namespace bertie::cli
