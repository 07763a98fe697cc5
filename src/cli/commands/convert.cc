// bertie convert
#include "bertie/convert.h"

#include <map>
#include <optional>

#include "bertie/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

void report(const Conversion& converted, const Settings& settings, double seconds) {
  if (settings.json) return print(to_json(converted, settings.words[1]) + "\n");
  print("{}: {} tensors, {} renamed, {:.1f} MB in {:.1f} s\n", printable(settings.words[1]),
        converted.tensors, converted.renamed, double(converted.bytes) / 1e6, seconds);
  std::map<std::string, std::vector<std::string>> dropped;  // by reason
  for (const DroppedTensor& t : converted.dropped) dropped[t.reason].push_back(t.name);
  for (const auto& [why, names] : dropped) {
    const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
    print("  left out ({}): {}{}\n", printable(why), printable(names[0]), settings.verbose ? "" : more);
    if (settings.verbose)
      for (size_t i = 1; i < names.size(); ++i) print("    {}\n", printable(names[i]));
  }
}

}  // namespace

int convert_command(const Settings& settings) {
  if (settings.words.size() < 2)
    throw UsageError("convert needs FROM and TO", "bertie convert uncased_L-12_H-768_A-12 bert");
  const StopInOrder stop;  // what was written is removed
  ProgressLine line(settings, false);
  const auto progress = [&](uint64_t done, uint64_t total) {
    throw_if_stopped();
    if (done == 0 || !line.is_due()) return;
    const double now = line.seconds();
    line.show(with_share(fmt::format("{:.0f} of {:.0f} MB, {:.0f} MB/s", double(done) / 1e6,
                                     double(total) / 1e6, double(done) / 1e6 / now),
                         double(done), double(total), now));
  };
  std::optional<Precision> precision;
  if (settings.dtype) precision = Precision(*settings.dtype);
  const Conversion converted = convert({.from = settings.words[0],
                                        .to = settings.words[1],
                                        .config = settings.config.value_or(""),
                                        .precision = precision,
                                        .vocabulary = settings.vocab.value_or(""),
                                        .drop = settings.drop,
                                        .drop_unknown = settings.drop_unknown,
                                        .force = settings.force,
                                        .progress = progress});
  end_progress_line();
  report(converted, settings, line.seconds());
  return 0;
}

}  // namespace bertie::cli
