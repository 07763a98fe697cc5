#include "cli/commands/training.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <utility>

#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

// The first signal asks the run to save and end; the second ends it at once. But ranks get several from
// mpirun, which has its own way to end them at once; and first of all SIGCONT (bertie/launcher.h), which
// counts when it comes from there.
std::atomic<int> asked_to_stop{0};
std::atomic<pid_t> launched_by{0};
extern "C" void on_stop_signal(int signal, siginfo_t* info, void*) {
  const pid_t launcher = launched_by;
  if (signal == SIGCONT) {
    if (info->si_pid != launcher) return;
    signal = SIGTERM;
  }
  if (asked_to_stop.exchange(signal) != 0 && launcher == 0) _exit(128 + signal);
}

}  // namespace

int stop_signal() { return asked_to_stop; }

void catch_stop_signals(const Settings& settings, const Launcher& launcher) {
  struct sigaction action {};
  action.sa_sigaction = on_stop_signal;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  std::vector<int> signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  if (launcher.several()) launched_by = getppid();
  if (launcher.several() && launcher.open_mpi && !launcher.forwards_job_control) signals.push_back(SIGCONT);
  for (int signal : signals) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
  if (launcher.several() && launcher.rank == 0 && launcher.process > 0 && !settings.quiet)
    say("bertie: to stop and save: kill -USR1 {}\n", launcher.process);
}

namespace {

struct Unit {
  char letter;
  double value;
};
constexpr Unit kTimes[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
constexpr Unit kCounts[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}};

// A number with one of the units after it; nothing for any other text.
std::optional<double> with_unit(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  for (const Unit& unit : units)
    if (text.ends_with(unit.letter) && read_number(text.substr(0, text.size() - 1), number) && number > 0 &&
        number < 1e15)
      return number * unit.value;
  return {};
}

double duration_of(std::string_view option, std::string_view text) {
  if (const auto seconds = with_unit(text, kTimes)) return *seconds;
  throw UsageError(
      fmt::format("{} takes a time with its unit, s, m, h or d, not {}", option, in_quotes(text)),
      fmt::format("{} 90m", option));
}

uint64_t count_of(std::string_view option, std::string_view text) {
  uint64_t number = 0;
  if (read_number(text, number) && number > 0 && number < uint64_t{1} << 53) return number;
  if (const auto count = with_unit(text, kCounts); count && *count < 0x1p53) return uint64_t(*count);
  throw UsageError(
      fmt::format("{} takes a number such as 20000, 500M or 2G, not {}", option, in_quotes(text)),
      fmt::format("{} 500M", option));
}

}  // namespace

TrainOptions train_options(const Settings& s) {
  TrainOptions o;
  o.out = s.out.value_or(""), o.resume = s.resume;
  o.batch = s.batch.value_or(o.batch), o.accumulate = s.accumulate.value_or(o.accumulate);
  o.steps = s.steps.value_or(0);
  if (s.token_limit) o.tokens = count_of("--tokens", *s.token_limit);
  if (s.time_limit) o.seconds = duration_of("--time", *s.time_limit);
  o.rate = s.rate.value_or(o.rate), o.warmup = s.warmup.value_or(o.warmup);
  if (s.rate && *s.rate == 0) throw UsageError("--rate 0 learns nothing", "--rate 1e-4");
  if (s.schedule) o.schedule = Schedule(*s.schedule);
  o.cooldown = s.cooldown.value_or(o.cooldown);
  if (s.optimizer) o.method = OptimizerMethod(*s.optimizer);
  o.decay = s.decay.value_or(o.decay), o.clip = s.clip.value_or(o.clip);
  o.average = s.average.value_or(o.average);
  o.beta2 = s.beta2.value_or(o.beta2), o.eps = s.eps.value_or(o.eps);
  if (s.outlier) o.outlier = *s.outlier;
  o.bf16 = s.bf16;
  if (s.eval_every) o.eval_every = *s.eval_every;
  o.eval_sequences = s.eval_sequences.value_or(o.eval_sequences);
  o.patience = s.patience.value_or(o.patience);
  if (s.save_every) {
    uint64_t steps = 0;
    o.save_every = 0, o.save_seconds = 0;
    if (read_number(*s.save_every, steps) && steps == 0)
      throw UsageError("--save-every takes a number of steps above 0, or a time such as 10m, not 0",
                       "--save-every 10m; at the end there is always a checkpoint");
    if (steps > 0) {
      o.save_every = steps;
    } else
      try {
        o.save_seconds = duration_of("--save-every", *s.save_every);
      } catch (const UsageError&) {
        throw UsageError(fmt::format("--save-every takes a number of steps, or a time such as 10m, not {}",
                                     in_quotes(*s.save_every)),
                         "--save-every 500, --save-every 10m");
      }
  }
  o.keep = s.keep.value_or(o.keep), o.log_every = s.log_every.value_or(o.log_every);
  o.seed = s.seed.value_or(o.seed);
  return o;
}

Teaching teaching_of(const Settings& s) {
  Teaching t{.teacher = s.teacher.value_or(""),
             .soft_weight = s.soft_weight,
             .hard_weight = s.hard_weight,
             .hidden_weight = s.hidden_weight};
  t.temperature = s.temperature.value_or(t.temperature);
  if (!s.layers) return t;
  std::string_view rest = *s.layers;
  for (size_t end = 0; end != rest.npos; rest.remove_prefix(std::min(end + 1, rest.size()))) {
    size_t number = 0;
    end = rest.find(',');
    if (!read_number(rest.substr(0, end), number))
      throw UsageError(
          fmt::format("--layers takes a number of layers, or which, not {}", in_quotes(*s.layers)),
          "--layers 6, or --layers 0,2,4,7,9,11");
    t.layers.push_back(number);
  }
  if (t.layers.size() == 1 && s.layers->find(',') == s.layers->npos) {
    if (t.layers[0] == 0) throw UsageError("a student without layers learns nothing", "--layers 6");
    t.depth = t.layers[0], t.layers.clear();
  }
  return t;
}

namespace {

// What a metric's accuracy is the share of.
std::string what_of(const Metric& metric) {
  if (metric.name == "teacher") return "as the teacher";
  return (metric.name == "label" ? "sentence" : metric.name) + "s";
}

}  // namespace

TrainLine::TrainLine(bool wanted, size_t seeds)
    : wanted_(wanted), seeds_(seeds), pause_(is_terminal(2) ? 0.25 : 10) {}

void TrainLine::operator()(const TrainProgress& p) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = last_ == std::chrono::steady_clock::time_point{};
  if (!wanted_ || (!first && p.fraction < 1 && std::chrono::duration<double>(now - last_).count() < pause_))
    return;
  last_ = now;
  fmt::basic_memory_buffer<char, 500> line;
  const auto out = std::back_inserter(line);
  // Seeds take about as long as each other.
  const double fraction = (double(seed_) + p.fraction) / double(seeds_);
  if (p.fraction > 0 && p.fraction < 1) of_seed_ = p.seconds_left / (1 - p.fraction);
  const double seconds_left = p.seconds_left + of_seed_ * double(seeds_ - 1 - seed_);
  fmt::format_to(out, "{:3.0f}%  ", 100 * fraction);
  if (seeds_ > 1) fmt::format_to(out, "seed {} of {}  ", seed_ + 1, seeds_);
  fmt::format_to(out, "step {}", p.step);
  if (p.steps > 0) fmt::format_to(out, "/{}", p.steps);
  fmt::format_to(out, "  loss {:.3f}", p.loss);
  for (const Metric& m : p.metrics)
    if (!std::isnan(m.accuracy)) fmt::format_to(out, "  {} {:.1f}%", what_of(m), 100 * m.accuracy);
  fmt::format_to(out, "  {:.0f} tokens/s  rate {:.1e}", p.tokens_per_second, p.rate);
  if (p.skipped > 0) fmt::format_to(out, "  {} skipped", p.skipped);
  if (seconds_left > 0) {
    const auto left = uint64_t(seconds_left + 0.5);
    if (left >= 3600)
      fmt::format_to(out, "  {}:{:02} h left", left / 3600, left / 60 % 60);
    else
      fmt::format_to(out, "  {}:{:02} min left", left / 60, left % 60);
  }
  show_progress_line({line.data(), line.size()});
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:+,@%-";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted;
  for (const char c : word) quoted.append(c == '\'' ? std::string_view("'\\''") : std::string_view(&c, 1));
  return fmt::format("'{}'", quoted);
}

std::string given_command(const Settings& settings) {
  std::vector<std::string> words{"bertie"};
  for (const std::string& word : settings.arguments)
    if (word != "--resume") words.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string resume_command(const Settings& settings, const Launcher& launcher) {
  std::vector<std::string> words;
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& word : more) words.push_back(shell_word(word));
  };
  // mpirun's own words; but not where it starts several programs.
  const bool known =
      std::find(launcher.command.begin(), launcher.command.end(), ":") == launcher.command.end() &&
      !launcher.command.empty();
  if (launcher.several()) words.push_back(known ? shell_word(launcher.command[0]) : "mpirun");
  if (launcher.several() && launcher.open_mpi && launcher.kill_timeout < Launcher::kGoodKillTimeout)
    words.push_back(Launcher::kill_timeout_option());
  if (launcher.several() && known) {
    add({launcher.command.begin() + 1, launcher.command.end()});
  } else {
    if (launcher.several()) words.push_back("[your mpirun options]");
    add({program_invocation_name});
    add(settings.arguments);
  }
  if (!settings.resume) words.push_back("--resume");
  return fmt::format("{}", fmt::join(words, " "));
}

TrainEvents train_events(const Settings& settings, TrainLine& line, const Launcher& launcher) {
  TrainEvents events;
  events.progress = std::ref(line);
  events.stop = [] { return asked_to_stop != 0; };
  events.failed = [&settings, &launcher](const Error& error) {
    warn(error.what(), error.hint().empty() ? resume_command(settings, launcher) : error.hint());
  };
  if (settings.quiet) return events;
  events.note = report_problem;
  events.warning = [](std::string_view what) { warn(what); };
  events.evaluated = [](const EvalResult& r) {
    std::string text = fmt::format("step {}:", r.step);
    const char* comma = "";
    const auto add = [&](const std::string& more) { text += std::exchange(comma, ",") + (" " + more); };
    if (!std::isnan(r.loss)) add(fmt::format("held-out loss {:.3f}", r.loss));
    for (const Metric& m : r.metrics)
      if (!std::isnan(m.accuracy)) add(fmt::format("{} right {:.1f}%", what_of(m), 100 * m.accuracy));
    constexpr size_t kShown = 3;  // the one that decides comes first; the log has all
    for (size_t i = 0; i < std::min(r.scores.size(), kShown); ++i)
      add(fmt::format("{} {}", r.scores[i].name, score_text(r.scores[i].value)));
    report_problem(text + (r.best ? " (best)" : ""));
  };
  if (settings.verbose)
    events.saved = [](const std::filesystem::path& path) {
      report_problem(fmt::format("saved {}", path.string()));
    };
  return events;
}

int exit_code(TrainEnd end) {
  std::fflush(stdout);  // mpirun may let a rank that was stopped wait, and then kill it
  return end == TrainEnd::kStopped && asked_to_stop ? 128 + asked_to_stop : 0;
}

}  // namespace bertie::cli
