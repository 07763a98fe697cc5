#include "cli/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <variant>

#include "bertie/json_writer.h"
#include "bertie/launcher.h"
#include "bertie/table.h"
#include "cli/checksum.h"
#include "cli/commands/training.h"
#include "cli/output_file.h"
#include "cli/task.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

// "2/4": the second of four.
Share read_part(const std::string& text) {
  const size_t slash = text.find('/');
  Share share;
  if (slash == text.npos || !read_number(std::string_view(text).substr(0, slash), share.rank) ||
      !read_number(std::string_view(text).substr(slash + 1), share.ranks) || share.rank < 1 ||
      share.rank > share.ranks)
    throw UsageError(fmt::format("--part {} is no part of several", in_quotes(text)),
                     "--part 1/4 to --part 4/4, in four processes");
  --share.rank;
  return share;
}

bool has_option(const Settings& settings, std::string_view name) {
  return std::ranges::any_of(command_named(settings.command).options,
                             [&](const Option& option) { return option.name == name; });
}

// What tells a model from another one. Of large files some places are looked at: training changes all of
// them.
uint64_t sum_of_model(const ModelFiles& files) {
  constexpr size_t kWhole = size_t{16} << 20, kPlaces = 256, kPiece = 4096;
  constexpr std::array<std::string_view, 6> kRead = {".json",        ".txt", ".model",
                                                     ".safetensors", ".bin", ".npz"};
  uint64_t sum = 0;
  for (const std::string& name : files.list()) {
    if (std::ranges::none_of(kRead, [&](std::string_view end) { return name.ends_with(end); })) continue;
    const FileBytes file = files.read(name);
    const std::string_view text = file.text();
    sum = sum_of(name, sum);
    if (text.size() <= kWhole) {
      sum = sum_of(text, sum);
      continue;
    }
    for (size_t i = 0; i < kPlaces; ++i) sum = sum_of(text.substr(text.size() / kPlaces * i, kPiece), sum);
    sum = sum_of(fmt::format("{}", text.size()), sum);
  }
  return sum;
}

std::string value_of(const Option& option, const Settings& settings) {
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = settings.*member;
        if constexpr (std::is_same_v<decltype(value), const bool&>)
          return value ? "true" : "false";
        else if constexpr (std::is_same_v<decltype(value), const std::vector<std::string>&>)
          return fmt::format("{}", fmt::join(value, "\n"));
        else
          return fmt::format("{}", *value);
      },
      option.to);
}

std::string format_name(const Settings& settings) {
  if (settings.npy) return "npy";
  if (settings.json) return "json";
  if (!settings.format) return "folder";
  return *settings.format == int(ResultFormat::kCsv) ? "csv" : "tsv";
}

void check_shared_inputs(const Settings& settings) {
  if (settings.files.empty() ? settings.words.empty() : std::ranges::count(settings.files, "-") > 0)
    throw UsageError("several processes cannot share standard input", "--file FILE, on a disk that all see");
}

}  // namespace

std::string describe_work(const Settings& settings, Work work) {
  constexpr std::array<std::string_view, 14> kNoMatter = {"file",   "model",  "threads", "json",   "format",
                                                          "strict", "quiet",  "verbose", "out",    "npy",
                                                          "part",   "resume", "force",   "context"};
  JsonWriter json;
  json.begin_object().field("version", BERTIE_VERSION).field("command", settings.command);
  json.field("model", fmt::format("{:016x}", sum_of_model(model_files(settings, work))));
  json.field("format", format_name(settings));
  for (const Option& option : options_of(command_named(settings.command)))
    if (std::ranges::find(kNoMatter, option.name) == kNoMatter.end() && is_given(option, settings))
      json.field(fmt::format("--{}", option.name), value_of(option, settings));
  json.end_object();
  return json.take();
}

Share share_of(const Settings& settings) {
  if (settings.part) return read_part(*settings.part);
  const Launcher launcher = Launcher::find();
  if (!launcher.several()) return {};
  if (*launcher.ranks < 1)
    throw UsageError("several processes were started, and how many is not said",
                     "--part I/N for each of them");
  return {.rank = size_t(launcher.rank), .ranks = size_t(*launcher.ranks)};
}

Settings with_result_file(const Settings& given) {
  Settings settings = given;
  if (settings.out && settings.npy)
    throw UsageError("--npy and --out are two names for one file of results", "one of them");
  if (settings.out) {
    const std::string extension = std::filesystem::path(*settings.out).extension().string();
    const bool npy = extension == ".npy" && !settings.json && !settings.format;
    const bool table = extension == ".csv" || extension == ".tsv";
    if ((npy && !has_option(settings, "npy")) || (table && !has_option(settings, "format")))
      throw UsageError(fmt::format("{} cannot write {}", settings.command, extension),
                       "a name such as out.jsonl");
    if (npy)
      settings.npy = std::exchange(settings.out, {});
    else if (table && !settings.json && !settings.format)
      settings.format = int(extension == ".csv" ? ResultFormat::kCsv : ResultFormat::kTsv);
    else if (!settings.format)
      settings.json = true;
  }
  const bool file = settings.out || settings.npy,
             printed = settings.npy && (settings.json || settings.format);
  const bool shared = share_of(settings).ranks > 1;
  if (settings.resume && (!file || printed))
    throw UsageError("--resume goes on with a file, and results go to standard output", "-o FILE");
  if (shared && (!file || printed))
    throw UsageError("several processes share the inputs, and results go to standard output",
                     "-o FILE, on a disk that all see");
  if (shared) check_shared_inputs(settings);
  return settings;
}

ResultOutput::ResultOutput(const Settings& settings, Work work, std::function<std::string(uint64_t)> front)
    : settings_(settings), share_(share_of(settings)) {
  if (!settings.out && !settings.npy) {
    if (front) print(front(0));
    return;
  }
  path_ = settings.npy ? *settings.npy : *settings.out;
  check_not_read(settings, path_);
  file_.emplace(path_, ResultFileOptions{.work = describe_work(settings, work),
                                         .front = std::move(front),
                                         .resume = settings.resume,
                                         .force = settings.force,
                                         .rank = share_.rank,
                                         .ranks = share_.ranks});
  last_ = file_->done();
  stop_.emplace();
}

std::string ResultOutput::where() const { return file_ ? fmt::format(", to {}", path_) : ""; }

void ResultOutput::put(std::string_view rows) {
  if (file_)
    file_->add(rows);
  else
    print(rows);
}

void ResultOutput::mark(const Mark& mark) {
  file_->mark(mark);
  last_ = mark;
}

std::optional<Mark> ResultOutput::finish(const Mark& all) {
  const std::optional<Mark> together = file_->finish(all);
  if (!together && settings_.part && !settings_.quiet)
    report_problem(
        fmt::format("part {} of {} is done; whoever is last makes {}", share_.rank + 1, share_.ranks, path_));
  return together;
}

void ResultOutput::cut_off() {
  if (last_.inputs == 0) return warn(fmt::format("stopped before there was anything for {}", path_));
  warn(fmt::format("stopped: the first {} are done, and in {}", with_commas(last_.inputs),
                   file_->part().string()),
       resume_command(settings_, Launcher::find()));
}

std::function<std::string(uint64_t)> table_front(const Settings& settings,
                                                 std::span<const std::string_view> columns) {
  std::optional<TableWriter> table = table_output(settings);
  if (!table) return {};
  for (const std::string_view column : columns) table->field(column);
  return [header = table->take_row()](uint64_t) { return header; };
}

}  // namespace bertie::cli
