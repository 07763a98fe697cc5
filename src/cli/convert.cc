// bertie convert
#include "bertie/convert.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <map>

#include "bertie/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace bertie::cli {
namespace {

// Ctrl-C lets the conversion end by itself, so that it removes what it has written.
std::atomic<int> caught{0};
extern "C" void catch_signal(int signal) { caught = signal; }

struct Interrupted {
  int signal;
};

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = catch_signal;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

// One line with share, rate and time left.
class Meter {
 public:
  explicit Meter(bool wanted) : wanted_(wanted), pause_(is_terminal(2) ? 0.25 : 2) {}

  void operator()(uint64_t done, uint64_t total) {
    if (const int signal = caught) throw Interrupted{signal};
    const double now = seconds();
    if (!wanted_ || now - last_ < pause_ || done == 0) return;
    last_ = now;
    show_progress_line(fmt::format("{:3.0f}%  {:.0f} of {:.0f} MB, {:.0f} MB/s, {:.0f} s left",
                                   100 * double(done) / double(total), double(done) / 1e6,
                                   double(total) / 1e6, double(done) / 1e6 / now,
                                   now / double(done) * double(total - done)));
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  bool wanted_;
  double pause_, last_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::optional<Precision> precision_of(const Settings& settings) {
  if (!settings.dtype) return {};
  for (const auto& [name, precision] : {std::pair("fp32", Precision::kFloat32),
                                        {"fp16", Precision::kFloat16},
                                        {"bf16", Precision::kBFloat16}})
    if (*settings.dtype == name) return precision;
  throw UsageError(fmt::format("--dtype is fp32, fp16 or bf16, not {}", in_quotes(*settings.dtype)),
                   "--dtype fp16");
}

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
    throw UsageError("convert needs FROM and TO",
                     "bertie convert bert_model.npz bert --config bert_config.json");
  catch_signals();
  Meter meter(!settings.quiet && (settings.verbose || is_terminal(2)));
  try {
    const Conversion converted = convert({.from = settings.words[0],
                                          .to = settings.words[1],
                                          .config = settings.config.value_or(""),
                                          .precision = precision_of(settings),
                                          .drop = settings.drop,
                                          .drop_unknown = settings.drop_unknown,
                                          .force = settings.force,
                                          .progress = std::ref(meter)});
    end_progress_line();
    report(converted, settings, meter.seconds());
    return 0;
  } catch (const Interrupted& interrupted) {
    end_progress_line();
    return 128 + interrupted.signal;
  }
}

}  // namespace bertie::cli
