// bertie pull, bertie models
#include <algorithm>
#include <chrono>

#include "bertie/hub.h"
#include "bertie/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace bertie::cli {
namespace {

// Shares, rate and time left: a few times a second on a terminal, now and then in a log; JSON lines for
// programs.
class PullLine {
 public:
  PullLine(bool wanted, bool json) : wanted_(wanted), json_(json), pause_(is_terminal(2) ? 0.25 : 2) {}

  void update(const PullProgress& p) {
    const double now = seconds();
    if (first_ && p.done > 0) begin_ = now, begun_ = p.done, first_ = false;  // a resumed part came before
    const bool new_wait = !p.waiting.empty() && p.waiting != waiting_;
    if (!wanted_ || (now - last_ < pause_ && !new_wait)) return;
    if (!json_ && !p.waiting.empty() && !new_wait) return;  // said already
    last_ = now;
    waiting_ = p.waiting;
    if (json_) return show_json(p);
    if (!p.waiting.empty()) return show_progress_line(printable(p.waiting));
    if (p.total == 0) return;
    const double rate = double(p.done - std::min(p.done, begun_)) / std::max(now - begin_, 1e-3);
    std::string line = fmt::format("{:3.0f}%  {} of {}", 100 * double(p.done) / double(p.total),
                                   size_text(p.done), size_text(p.total));
    if (rate > 0 && now > begin_ + 0.5)
      line += fmt::format(", {}/s, {} left", size_text(size_t(rate)),
                          duration_text(double(p.total - std::min(p.total, p.done)) / rate));
    show_progress_line(cut(line + "  " + printable(p.file), output_width() - 1));
  }
  void finish(const std::string& line) {
    if (!wanted_ || json_) return;
    show_progress_line(line);
    end_progress_line();
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  static void show_json(const PullProgress& p) {
    print(to_json(p) + "\n");
    flush_output();
  }
  bool wanted_, json_, first_ = true;
  double pause_, last_ = 0, begin_ = 0;
  uint64_t begun_ = 0;
  std::string waiting_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string revision_text(const CachedModel& model) {
  const std::string commit = model.commit.substr(0, 8);
  return model.refs.empty() ? commit : fmt::format("{} {}", fmt::join(model.refs, " "), commit);
}

}  // namespace

int pull_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("bertie pull needs a model's name",
                     "bertie pull sentence-transformers/all-MiniLM-L6-v2");
  const std::string& name = settings.words[0];
  PullLine line(!settings.quiet, settings.json);
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
  fmt::print(stderr, "{}{}\n", result.downloaded == 0 ? "Everything was here. " : "",
             fmt::format("Next: bertie info {0}, or any command with --model {0}", printable(name)));
  return 0;
}

int models_command(const Settings& settings) {
  const Hub hub = Hub::from_environment();
  const std::vector<CachedModel> models = cached_models(hub);
  if (settings.json) {
    for (const CachedModel& model : models) print(to_json(model) + "\n");
    return 0;
  }
  if (models.empty()) {
    if (!settings.quiet)
      warn(fmt::format("there are no models in {}", printable(hub.cache.string())),
           "bertie pull sentence-transformers/all-MiniLM-L6-v2");
    return 0;
  }
  Table table({"model", "revision", "type", "size", "state", "path"}, "lllrll");
  for (const CachedModel& model : models)
    table.add({printable(model.name), printable(revision_text(model)), printable(model.model_type),
               size_text(model.bytes), model.problem.empty() ? "complete" : "incomplete",
               printable(model.path.string())});
  print(table.text(Style::for_output(), is_terminal(1) ? output_width() : 1000));
  if (settings.verbose)
    for (const CachedModel& model : models)
      if (!model.problem.empty())
        fmt::print(stderr, "{}: {}\n", printable(model.name), printable(model.problem));
  return 0;
}

}  // namespace bertie::cli
