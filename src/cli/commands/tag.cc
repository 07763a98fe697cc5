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

int tag_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  TagOptions usual{.stride = settings.stride, .keep_outside = settings.keep_outside};
  if (settings.group) usual.aggregation = Aggregation(*settings.group);
  Inputs inputs(settings, TaskKind::kTag);
  const TextModel model = load_model(settings, Work::kTag);
  const Style style = Style::for_output();
  Kinds kinds;
  const std::optional<TableWriter> table = table_output(settings);
  constexpr std::array<std::string_view, 6> kColumns = {"index", "label", "score", "text", "start", "end"};
  ResultOutput output(settings, Work::kTag, table_front(settings, kColumns));
  return for_each_input(
      settings, inputs, {.where = output.where(), .results = output.kept()}, model,
      [&](const TextModel& tagger, std::span<const Input> block, const ProgressCallback& progress) {
        TagOptions options = usual;
        options.progress = progress;
        return tagger.tag(texts_of(block), options);
      },
      [&](const Input& input, const Tagging& result) {
        if (settings.json) return to_json(result, input_of(input)) + "\n";
        std::string rows;
        if (!table) return rows;
        for (const Entity& e : result.entities) {
          TableWriter row = *table;
          row.field(input.index).field(e.label).field(e.score).field(e.text);
          rows += row.field(size_t(e.offset.begin)).field(size_t(e.offset.end)).take_row();
        }
        return rows;
      },
      [&](const Input& input, const Tagging& result, const std::string& rows) {
        if (table || settings.json) return output.put(rows);
        if (input.index > 0) print("\n");
        print("{}\n", marked(CodePoints(input.a), result.entities, style, kinds));
        if (result.entities.empty()) return print("{}\n", style.dim("  nothing found"));
        Table shown({"label", "score", "place", "text"}, "lrrl");
        for (const Entity& e : result.entities)
          shown.add({printable(e.label), percent(e.score), fmt::format("{}-{}", e.offset.begin, e.offset.end),
                     printable(e.text)});
        print(shown.text(style, output_width()));
      });
}

}  // namespace bertie::cli
