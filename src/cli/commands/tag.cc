// bertie tag
#include <algorithm>
#include <array>

#include "bertie/utf8.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

// A number for each kind of entity, in the order they come: that of its color.
class Kinds {
 public:
  size_t number_of(const std::string& label) {
    const auto known = std::find(labels_.begin(), labels_.end(), label);
    const auto number = size_t(known - labels_.begin());
    if (known == labels_.end()) labels_.push_back(label);
    return number;
  }

 private:
  std::vector<std::string> labels_;
};

// The text with its entities in brackets and in color.
std::string marked(const CodePoints& text, const std::vector<Entity>& entities, const Style& style,
                   Kinds& kinds) {
  std::string out;
  uint32_t at = 0;
  for (const Entity& e : entities) {
    if (e.offset.begin < at || e.offset.begin == e.offset.end) continue;
    out += printable(text.at({at, e.offset.begin}));
    out += style.numbered(kinds.number_of(e.label),
                          fmt::format("[{} {}]", printable(text.at(e.offset)), printable(e.label)));
    at = e.offset.end;
  }
  return out + printable(text.at({at, uint32_t(text.size())}));
}

}  // namespace

int tag_command(const Settings& settings) {
  TagOptions options{.aggregation = Aggregation(settings.group.value_or(int(Aggregation::kSimple))),
                     .stride = settings.stride,
                     .keep_outside = settings.keep_outside};
  Inputs inputs(settings, TaskKind::kTag);
  const TextModel model = load_model(settings, Work::kTag);
  const Style style = Style::for_output();
  Kinds kinds;
  std::optional<TableWriter> rows = table_output(settings);
  if (rows)
    print_header(*rows, std::array<std::string_view, 6>{"index", "label", "score", "text", "start", "end"});
  return for_each_input(
      settings, inputs, {},
      [&](std::span<const Input> block, const ProgressCallback& progress) {
        options.progress = progress;
        return model.tag(texts_of(block), options);
      },
      [&](const Input& input, const Tagging& result) {
        if (rows) {
          for (const Entity& e : result.entities) {
            rows->field(input.index).field(e.label).field(e.score).field(e.text);
            print(rows->field(size_t(e.offset.begin)).field(size_t(e.offset.end)).take_row());
          }
          return;
        }
        if (settings.json) return print(to_json(result, input_of(input)) + "\n");
        if (input.index > 0) print("\n");
        print("{}\n", marked(CodePoints(input.a), result.entities, style, kinds));
        if (result.entities.empty()) return print("{}\n", style.dim("  nothing found"));
        Table table({"label", "score", "place", "text"}, "lrrl");
        for (const Entity& e : result.entities)
          table.add({printable(e.label), percent(e.score), fmt::format("{}-{}", e.offset.begin, e.offset.end),
                     printable(e.text)});
        print(table.text(style, output_width()));
      });
}

}  // namespace bertie::cli
