// bertie classify and bertie pair
#include <algorithm>
#include <array>
#include <map>
#include <ranges>

#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

// Whether scores are probabilities; a regression's numbers are not.
bool shares(Apply apply, const Config& config) {
  return apply == Apply::kByProblem ? config.problem != Problem::kRegression : apply != Apply::kNothing;
}

// How many of them hold, best first.
size_t held(const std::vector<Scored>& labels) {
  return size_t(std::ranges::count_if(labels, [](const Scored& s) { return s.score > 0.5f; }));
}

std::string shown(float score, bool share) { return share ? percent(score) : fmt::format("{:.4f}", score); }

int classify_inputs(const Settings& settings, Inputs& inputs, bool pair) {
  const Apply apply = Apply(settings.apply.value_or(int(Apply::kByProblem)));
  const TextModel model = load_model(settings, pair ? Work::kPair : Work::kClassify);
  const std::string_view what = pair ? "pairs" : "texts";
  const Style style = Style::for_output();
  const size_t width = output_width();
  const bool share = shares(apply, model.model().config());
  // One input: all its labels. Many: the best one each, or those that hold where several may, a line a text.
  const bool several = apply == Apply::kByProblem && model.model().config().problem == Problem::kMultiLabel;
  constexpr size_t kLeastName = 12, kMostName = 24;
  std::map<std::string, std::string> names;  // of labels, as they are shown below each other
  size_t name_width = kLeastName;
  const std::vector<std::string>& known = model.model().config().labels;
  for (size_t i = 0; const std::string& name : short_names(known, kMostName)) {
    names[known[i++]] = name;
    name_width = std::max(name_width, display_width(name));
  }
  const bool one = inputs.only_one();
  const std::optional<TableWriter> table_rows = table_output(settings);
  constexpr std::array<std::string_view, 5> kPairColumns = {"index", "a", "b", "label", "score"};
  constexpr std::array<std::string_view, 4> kTextColumns = {"index", "text", "label", "score"};
  ResultOutput output(settings, pair ? Work::kPair : Work::kClassify,
                      pair ? table_front(settings, kPairColumns) : table_front(settings, kTextColumns));
  const bool all_labels = settings.json || (one && !table_rows);
  size_t cut_inputs = 0;
  const int code = for_each_input(
      settings, inputs, {.what = what, .where = output.where(), .results = output.kept(), .cut = &cut_inputs},
      model,
      [&](const TextModel& classifier, std::span<const Input> block, const ProgressCallback& progress) {
        const ClassifyOptions options{.apply = apply, .progress = progress};
        std::vector<Classification> results = pair ? classifier.classify(pairs_of(block), options)
                                                   : classifier.classify(texts_of(block), options);
        for (std::vector<Scored>& labels : results | std::views::transform(&Classification::labels)) {
          const size_t usual = all_labels ? labels.size() : several ? held(labels) : 1;
          labels.resize(std::min(labels.size(), settings.top.value_or(usual)));
        }
        return results;
      },
      [&](const Input& input, const Classification& result) {
        if (settings.json) return to_json(result, input_of(input, pair)) + "\n";
        std::string rows;
        if (!table_rows) return rows;
        const auto add = [&](std::string_view label, std::optional<float> score) {
          TableWriter row = *table_rows;
          row.field(input.index).field(input.a);
          if (pair) row.field(input.b);
          row.field(label);
          rows += (score ? row.field(*score) : row.field("")).take_row();
        };
        for (const Scored& s : result.labels) add(s.label, s.score);
        if (result.labels.empty()) add("", {});
        return rows;
      },
      [&](const Input& input, const Classification& result, const std::string& rows) {
        cut_inputs += result.truncated;
        const std::vector<Scored>& labels = result.labels;
        if (!rows.empty()) {
          output.put(rows);
        } else if (one || settings.top) {
          if (!one) print_heading(style, pair ? "pair" : "text", input.index, input.a);
          Table table({"label", "score", ""}, "lrl");
          for (const Scored& s : labels)
            table.add({printable(s.label), shown(s.score, share), share ? bar(s.score, 24) : ""});
          print(table.text(style, width));
        } else {
          std::string best = labels.empty() ? "(none)" : "";
          for (const Scored& s : labels)
            best += fmt::format("{}{} {}", best.empty() ? "" : ", ",
                                several ? printable(s.label) : pad(names.at(s.label), name_width),
                                shown(s.score, share));
          const std::string text =
              printable(input.a.substr(0, 400)) + (pair ? " / " + printable(input.b.substr(0, 400)) : "");
          const size_t room = std::max<size_t>(width, display_width(best) + 18) - display_width(best) - 2;
          print("{}  {}\n", style.bold(best), style.dim(cut(text, room)));
        }
      });
  warn_if_cut(settings, model, cut_inputs, inputs.count(), what);
  return code;
}

}  // namespace

int classify_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings, TaskKind::kClassify);
  return classify_inputs(settings, inputs, false);
}

int pair_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings, kPairFields, TaskKind::kPair);
  return classify_inputs(settings, inputs, true);
}

}  // namespace bertie::cli
