// bertie pull, bertie models
#include <algorithm>

#include "bertie/config.h"
#include "bertie/files.h"
#include "bertie/hub.h"
#include "bertie/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

// Share, rate and time left; JSON lines for programs.
class PullLine {
 public:
  explicit PullLine(const Settings& settings)
      : quiet_(settings.quiet), json_(settings.json), line_(settings, false) {}

  void update(const PullProgress& p) {
    const double now = line_.seconds();
    if (first_ && p.done > 0) begin_ = now, begun_ = p.done, first_ = false;  // a resumed part came before
    const bool new_wait = !p.waiting.empty() && p.waiting != waiting_;
    if (quiet_ || (!line_.is_due() && !new_wait)) return;
    waiting_ = p.waiting;
    if (json_) {
      print(to_json(p) + "\n");
      return flush_output();
    }
    if (new_wait) return line_.show(printable(p.waiting));
    if (!p.waiting.empty() || p.total == 0) return;
    const double rate = double(p.done - std::min(p.done, begun_)) / std::max(now - begin_, 1e-3);
    std::string text = fmt::format("{:3.0f}%  {} of {}", 100 * double(p.done) / double(p.total),
                                   size_text(p.done), size_text(p.total));
    if (rate > 0 && now > begin_ + 0.5)
      text += fmt::format(", {}/s, {} left", size_text(size_t(rate)),
                          duration_text(double(p.total - std::min(p.total, p.done)) / rate));
    line_.show(cut(text + "  " + printable(p.file), output_width() - 1));
  }
  void finish(const std::string& text) {
    if (quiet_ || json_) return;
    show_progress_line(text);
    end_progress_line();
  }
  double seconds() const { return line_.seconds(); }

 private:
  bool quiet_, json_, first_ = true;
  ProgressLine line_;
  double begin_ = 0;
  uint64_t begun_ = 0;
  std::string waiting_;
};

std::string revision_text(const CachedModel& model) {
  const std::string commit = model.commit.substr(0, 8);
  return model.refs.empty() ? commit : fmt::format("{} {}", fmt::join(model.refs, " "), commit);
}

// A model that is part of the program, as one of the list.
CachedModel embedded(const std::string& name) {
  const ModelFiles files(name);
  CachedModel model{.name = name, .model_type = Config::load(files).model_type};
  for (const std::string& file : files.list()) model.bytes += files.read(file).bytes.size();
  return model;
}

}  // namespace

int pull_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("bertie pull needs a model's name",
                     "bertie pull sentence-transformers/all-MiniLM-L6-v2");
  const std::string& name = settings.words[0];
  PullLine line(settings);
  const PullResult result = pull(name, {.progress = [&](const PullProgress& progress) {
                                   line.update(progress);
                                   return true;
                                 }});
  if (settings.json) {
    print(to_json(result, name) + "\n");
    return 0;
  }
  if (result.downloaded > 0)
    line.finish(fmt::format("{} in {:.1f} s, checked", size_text(result.downloaded), line.seconds()));
  print("{}\n", printable(result.path.string()));
  if (settings.quiet) return 0;
  flush_output();
  say("{}{}\n", result.downloaded == 0 ? "Everything was here. " : "",
      fmt::format("Next: bertie info {0}, or any command with --model {0}", printable(name)));
  return 0;
}

int models_command(const Settings& settings) {
  const Hub hub = Hub::from_environment();
  std::vector<CachedModel> models = cached_models(hub);
  for (const std::string& name : embedded_models()) models.push_back(embedded(name));
  if (settings.json) {
    for (const CachedModel& model : models) print(to_json(model) + "\n");
    return 0;
  }
  if (models.empty()) {
    if (!settings.quiet)
      warn(fmt::format("there are no models in {}", hub.cache.string()),
           "bertie pull sentence-transformers/all-MiniLM-L6-v2");
    return 0;
  }
  Table table({"model", "revision", "type", "size", "state", "path"}, "lllrll");
  for (const CachedModel& model : models)
    table.add({printable(model.name), printable(revision_text(model)), printable(model.model_type),
               size_text(model.bytes),
               !model.problem.empty() ? "incomplete"
               : model.path.empty()   ? "part of bertie"
                                      : "complete",
               printable(model.path.string())});
  print(table.text(Style::for_output(), is_terminal(1) ? output_width() : 1000));
  if (settings.verbose)
    for (const CachedModel& model : models)
      if (!model.problem.empty()) say("{}: {}\n", printable(model.name), printable(model.problem));
  return 0;
}

}  // namespace bertie::cli
