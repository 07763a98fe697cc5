// bertie prune
#include "bertie/prune.h"

#include "bertie/dataset.h"
#include "bertie/heads.h"
#include "bertie/json_writer.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

constexpr size_t kUsualTexts = 200;

// Each head's importance, on texts or on labelled rows.
std::vector<double> measured(const Settings& settings, const TextModel& model) {
  std::vector<std::string> texts;
  ImportanceOptions options{.seed = settings.seed.value_or(1)};
  const size_t most = settings.n.value_or(kUsualTexts);
  if (settings.data) {
    const std::vector<std::string>& labels = model.model().config().labels;
    const Dataset data = with_labels(read_dataset(TaskKind::kClassify, *settings.data), labels);
    for (const TextExample& row : data.texts) {
      if (texts.size() == most) break;
      if (!row.b.empty())
        throw UsageError("prune measures heads on single texts, and these rows are pairs",
                         "--file with texts, or --heads");
      if (row.labels.size() != 1) continue;
      texts.push_back(row.a), options.labels.push_back(labels[size_t(row.labels[0])]);
    }
  } else {
    Settings lines = settings;  // the word is the new folder
    lines.words.clear();
    Inputs inputs(lines);
    for (Input input; texts.size() < most && inputs.next(input);)
      if (!input.a.empty()) texts.push_back(input.a);
  }
  ProgressLine line(settings, false);
  options.progress = [&](size_t done, size_t of) {
    throw_if_stopped();
    if (!line.is_due()) return;
    const double now = line.seconds();
    line.show(with_share(
        fmt::format("{} of {} texts, {:.1f}/s", with_commas(done), with_commas(of), double(done) / now),
        double(done), double(of), now));
  };
  std::vector<double> importance = head_importance(model, texts, options);
  line.finish(fmt::format("{} texts in {:.1f} s", with_commas(texts.size()), line.seconds()));
  return importance;
}

}  // namespace

int prune_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("prune needs the folder to write", "bertie prune -m MODEL TO --heads 1-2,3-4");
  if (settings.head_list.has_value() == settings.share.has_value())
    throw UsageError("prune needs --heads or --share, one of them",
                     "--heads 1-2,3-4, or --share 0.3 --file texts.txt");
  if (settings.head_list)
    refuse({{!settings.files.empty(), "file"},
            {settings.data.has_value(), "data"},
            {settings.n.has_value(), "limit"}},
           "for --share, which has to find out");
  const StopInOrder stop;
  std::vector<WhichHead> heads;
  const ModelFiles files = model_files(settings);
  if (settings.head_list) {
    heads = heads_named(*settings.head_list, "heads", load_model(settings).model().config());
  } else {
    const TextModel model = load_model(settings, settings.data ? Work::kClassify : Work::kFillMask);
    heads = least_important(measured(settings, model), model.model().config(), *settings.share);
  }
  const Pruned pruned =
      prune({.from = files, .to = settings.words[0], .heads = heads, .force = settings.force});
  std::string names;
  for (const WhichHead& which : heads)
    names += fmt::format("{}{}-{}", names.empty() ? "" : ",", which.layer + 1, which.head + 1);
  if (settings.json) {
    JsonWriter json;
    json.begin_object().field("to", settings.words[0]).field("heads", names).field("removed", pruned.heads);
    json.field("parameters_before", pruned.parameters_before).field("parameters", pruned.parameters);
    print(json.end_object().take() + "\n");
    return 0;
  }
  print("{}: without {} heads ({}), {} parameters of {}\n", printable(settings.words[0]), pruned.heads, names,
        with_commas(pruned.parameters), with_commas(pruned.parameters_before));
  return 0;
}

}  // namespace bertie::cli
