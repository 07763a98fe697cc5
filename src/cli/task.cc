#include "cli/task.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace bertie::cli {

void refuse(std::initializer_list<std::pair<bool, const char*>> given, std::string_view why) {
  for (const auto& [is_given, name] : given)
    if (is_given) throw UsageError(fmt::format("--{} is {}", name, why), "leave it out");
}

void refuse_for(TaskKind kind, const Settings& s) {
  const bool texts = kind == TaskKind::kClassify || kind == TaskKind::kPair,
             answers = kind == TaskKind::kAnswer;
  refuse({{s.column_pair && (kind == TaskKind::kClassify || kind == TaskKind::kTag), "column-pair"},
          {s.stride && texts, "stride"},
          {s.problem && !texts, "problem"},
          {s.threshold && !answers, "threshold"},
          {s.max_answer && !answers, "max-answer"},
          {s.max_question && !answers, "max-question"}},
         fmt::format("not for {}", name_of(kind)));
}

int threads_for(const Settings& settings, const Tokenizer&) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return int(settings.threads.value_or(0) > 0 ? *settings.threads : cores);
}

namespace {

constexpr size_t kMostBytes = size_t{1}
                              << 12;  // of a block: some 1,000 tokens, whose activations suit a core's cache
constexpr size_t kLeastBytes = size_t{1} << 10;  // at the end, so that no thread is left with much of it

struct Over {};  // an error elsewhere ends the work

Settings with_quiet(Settings settings, bool quiet) {
  settings.quiet = quiet;
  return settings;
}

}  // namespace

InputBlocks::InputBlocks(const Settings& settings, Inputs& inputs, const ForEach& how, int threads)
    : inputs_(inputs),
      how_(how),
      share_(how.results ? how.results->share() : Share()),
      quiet_(settings.quiet || share_.rank > 0),  // of several processes the first one speaks
      threads_(threads),
      few_(how.most > 1 && inputs.lines().total() > 0 &&
           inputs.lines().total() <= kLeastBytes * size_t(threads)),
      progress_(with_quiet(settings, quiet_), how.shows_results) {
  if (share_.ranks != share_of(settings).ranks)
    throw UsageError("several processes were started, and this is work for one",
                     "without mpirun; or -o FILE");
}

void InputBlocks::skip_done() {
  if (!how_.results) return;
  const Mark done = how_.results->done();
  const auto other_work = [&](const std::string& what) {
    throw Error(fmt::format("{}, so these are not the {} of what was begun", what, how_.what),
                "the same files; or --force to begin anew; or another name", "resume");
  };
  Input last;
  while (inputs_.count() < done.inputs) {
    throw_if_stopped();
    if (!inputs_.read(last))
      other_work(fmt::format("there are {} {}, and not {}", inputs_.count(), how_.what, done.inputs));
  }
  if (inputs_.sum() != done.sum && done.inputs > 0)
    other_work(fmt::format("the first {} {} are others", with_commas(done.inputs), how_.what));
  if (how_.results->is_all_done() && inputs_.read(last)) other_work("there are more");
  inputs_.set_failed(done.failed);
  if (how_.cut) *how_.cut = done.cut;
  before_ = read_ = {inputs_.count(), double(inputs_.lines().done())};
  if (done.inputs > 0 && !quiet_)
    report_problem(fmt::format("goes on behind {} {} that are done", with_commas(done.inputs), how_.what));
}

bool InputBlocks::read(Block& block) {
  throw_if_stopped();
  if (error_) throw Error(*error_);
  const LineReader& lines = inputs_.lines();
  size_t most = few_ ? SIZE_MAX : kMostBytes;
  if (!few_ && lines.total() > 0)
    most = std::clamp((lines.total() - std::min(lines.done(), lines.total())) / (4 * size_t(threads_)),
                      kLeastBytes, kMostBytes);
  size_t bytes = 0;
  const auto count = [&] { return block.inputs.size() + block.bad.size(); };
  const auto full = [&] { return bytes >= most || (!few_ && count() >= how_.most); };
  try {
    for (Input input; !full() && inputs_.read(input, count() == 0);) {
      const size_t index = input.index;
      if (share_.has(index)) {
        bytes += input.a.size() + input.b.size() + 1;
        (input.problem ? block.bad : block.inputs).push_back(std::move(input));
      }
      if (share_.ends_stripe(index) && count() > 0) break;  // behind it are others' inputs
    }
    if (count() == 0) return false;
  } catch (const Error& error) {
    if (count() == 0) throw;
    error_ = error;  // what came before it is not lost
  }
  const bool others = at_work_++ > 0;
  block.alone = threads_ == 1 || (!others && !full());
  block.met = inputs_.count(), block.sum = inputs_.sum();
  std::lock_guard lock(mutex_);
  read_ = {block.met, double(lines.done())};
  taken_ += count();
  return true;
}

void InputBlocks::working(Block& block, size_t done) {
  throw_if_stopped();
  if (over_) throw Over();
  std::lock_guard lock(mutex_);
  computed_ += done - block.computed;
  block.computed = done;
  show_progress();
}

void InputBlocks::done(const Block& block) {
  flush_output();  // whoever feeds us line by line waits for it; and whoever stops us has what is done
  if (how_.results) how_.results->mark(mark(block.met, block.sum));
  --at_work_;
  throw_if_stopped();
  std::lock_guard lock(mutex_);
  computed_ += block.inputs.size() + block.bad.size() - block.computed;
  show_progress();
}

void InputBlocks::keep(const Input& last) {
  if (how_.results) how_.results->mark(mark(last.index + 1, last.sum));
}

void InputBlocks::give_up() {
  over_ = true;
  inputs_.give_up();
}

Mark InputBlocks::mark(size_t met, uint64_t sum) const {
  return {.inputs = met, .sum = sum, .failed = inputs_.failed(), .cut = how_.cut ? *how_.cut : 0};
}

void InputBlocks::show_progress() {
  if (!progress_.is_due()) return;
  const double now = progress_.seconds();
  if (computed_ == 0)  // there is no rate yet
    return progress_.show(
        fmt::format("0 of {} {} after {}", with_commas(taken_), how_.what, duration_text(now)));
  const double share = double(computed_) / double(taken_);
  const double inputs = share * double(read_.met - before_.met);
  const double bytes = share * (read_.bytes - before_.bytes);
  // What is left takes as long for each byte as what this process has done.
  progress_.show(with_share(
      fmt::format("{} {}, {:.0f}/s", with_commas(before_.met + size_t(inputs)), how_.what, inputs / now),
      before_.bytes + bytes, double(inputs_.lines().total()), now * (before_.bytes + bytes) / bytes));
}

int InputBlocks::finish() {
  const double now = progress_.seconds();
  const double here = double(inputs_.count() - before_.met);
  if (how_.results) {
    const std::optional<Mark> all = how_.results->finish(mark(inputs_.count(), inputs_.sum()));
    inputs_.set_failed(all ? all->failed : 0);
    if (how_.cut) *how_.cut = all ? all->cut : 0;
    if (!all) return 0;  // whoever is last says what is to be said
  }
  progress_.finish(fmt::format("{} {} in {:.1f} s, {:.0f}/s{}", with_commas(size_t(here)), how_.what, now,
                               here / std::max(now, 1e-3), how_.where));
  return inputs_.report(how_.what, how_.failed);
}

std::vector<std::string_view> texts_of(std::span<const Input> block) {
  std::vector<std::string_view> texts;
  for (const Input& input : block) texts.push_back(input.a);
  return texts;
}

std::vector<TextPair> pairs_of(std::span<const Input> block) {
  std::vector<TextPair> pairs;
  for (const Input& input : block) pairs.push_back({input.a, input.b});
  return pairs;
}

JsonInput input_of(const Input& input, bool pair) {
  if (pair) return {.index = input.index, .a = input.a, .b = input.b};
  return {.index = input.index, .text = input.a};
}

JsonInput input_of(std::string_view text, const std::optional<std::string>& pair) {
  if (pair) return {.index = 0, .a = text, .b = *pair};
  return {.index = 0, .text = text};
}

void warn_if_cut(const Settings& settings, size_t cut, size_t count, std::string_view what, size_t length,
                 std::string_view hint) {
  if (cut > 0 && !settings.quiet)
    warn(fmt::format("{} of {} {} had more than {} tokens and were cut", cut, count, what, length), hint);
}

void warn_if_cut(const Settings& settings, const TextModel& model, size_t cut, size_t count,
                 std::string_view what, std::optional<size_t> max_length) {
  const size_t length = max_length.value_or(model.task_max_length());
  const size_t most = model.model().config().max_tokens();
  warn_if_cut(settings, cut, count, what, length,
              length < most
                  ? fmt::format("--max-length {}, the most this model takes, or shorter {}", most, what)
                  : fmt::format("shorter {}: this model takes no more", what));
}

std::optional<TableWriter> table_output(const Settings& settings) {
  if (!settings.format || *settings.format == int(ResultFormat::kJson)) return {};
  return TableWriter(*settings.format == int(ResultFormat::kCsv) ? ',' : '\t');
}

std::string percent(float share) {
  const double shown = double(share) * 100;
  return shown > 0 && shown < 0.05 ? " <0.1%" : fmt::format("{:5.1f}%", shown);
}

void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text) {
  print("{}{} {}\n", index > 0 ? "\n" : "", style.dim(fmt::format("{} {}:", what, index + 1)),
        style.bold(cut(printable(text.substr(0, 4000)), std::max<size_t>(output_width(), 40) - 12)));
}

}  // namespace bertie::cli
