#pragma once
// What the commands over many inputs share: going through them, warnings, and scores for the eye.
#include <atomic>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bertie/json.h"
#include "bertie/table.h"
#include "bertie/text_model.h"
#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/results.h"
#include "cli/side_by_side.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

// UsageError for an option that was given and would do nothing: "--stride is for tasks".
void refuse(std::initializer_list<std::pair<bool, const char*>> given, std::string_view why);

// The same for options that mean nothing for a kind of labelled data.
void refuse_for(TaskKind kind, const Settings& settings);

struct ForEach {
  std::string_view what = "texts";                    // are the inputs
  size_t most = 256;                                  // inputs that are computed together
  bool shows_results = true;                          // on standard output, while it goes on
  std::string where = {};                             // they go to, for the last line of progress
  std::string_view failed = {};                       // what becomes of those that could not be used
  std::function<void(const Input&)> on_failure = {};  // that one could not be used, in its turn
  KeptResults* results = nullptr;                     // that outlive the process; null: none
  size_t* cut = nullptr;                              // inputs that were cut, as show counts them
};

// Inputs that are computed together.
struct Block {
  std::vector<Input> inputs, bad;  // those that can be used; those that cannot
  bool alone = false;              // no others are to be had now: all threads are for this one
  size_t met = 0;                  // inputs that were read up to its end
  uint64_t sum = 0;                // of them
  size_t computed = 0;             // of it
};

// Some 1,000 tokens' worth of inputs at a time, so that memory is bounded, progress moves and every thread
// has its own; but no more than there are without waiting: whoever feeds us line by line gets answers line by
// line.
class InputBlocks {
 public:
  InputBlocks(const Settings& settings, Inputs& inputs, const ForEach& how, int threads);

  void skip_done();         // what the results that are kept have already; first of all
  bool read(Block& block);  // false at the end; one thread at a time
  // Now and then, from any thread: so many of the block are computed. Throws where the work is to end.
  void working(Block& block, size_t done);
  void done(const Block& block);  // in order: results are out, progress moves
  void keep(const Input& last);   // of a block that does not come to its end: results up to this one
  void give_up();                 // whoever reads or works is to end; from any thread
  int finish();                   // says what is to be said at the end; the exit code

 private:
  void show_progress();
  Mark mark(size_t met, uint64_t sum) const;

  Inputs& inputs_;
  ForEach how_;
  Share share_;
  bool quiet_;
  int threads_;
  bool few_;                         // inputs: all are one block, for all threads
  std::optional<Error> error_;       // met while reading, and told after the block
  std::atomic<size_t> at_work_ = 0;  // blocks
  std::atomic<bool> over_ = false;
  std::mutex mutex_;  // guards what follows
  ProgressLine progress_;
  size_t taken_ = 0, computed_ = 0;  // inputs that are for this process to do
  struct Place {
    size_t met = 0;    // inputs, those of other processes too
    double bytes = 0;  // of the files
  } before_, read_;    // where it was cut off, and what was read up to now
};

// How many threads work, and a model for one that works for itself: it shares everything else.
inline int threads_for(const Settings&, const TextModel& model) { return model.threads(); }
inline TextModel with_one_thread(const TextModel& model) { return model.with_threads(1); }
int threads_for(const Settings& settings, const Tokenizer& tokenizer);
inline const Tokenizer& with_one_thread(const Tokenizer& tokenizer) { return tokenizer; }

// What became of an input.
template <class Result>
struct Outcome {
  std::optional<Result> result = {};
  std::optional<Error> error = {};  // instead
  std::string row = {};
};

// compute(model, inputs, progress) gives a result for each of some inputs, and calls progress where it takes
// long; row(input, result) is what programs read of one; both on any thread, several at a time, and with a
// model for as many threads as they have. show(input, result, row) prints one, in the order of the inputs. An
// Error of compute is about one input, and the others go on; --strict ends at the first. But an Error for no
// inputs at all is about the options, and so it seems to be where the first thousand fail. Errors of show are
// passed on. Returns the exit code.
template <class Model, class Compute, class Row, class Show>
int for_each_input(const Settings& settings, Inputs& inputs, const ForEach& how, const Model& model,
                   const Compute& compute, const Row& row, const Show& show) {
  using Result = typename decltype(compute(model, std::span<const Input>(), ProgressCallback()))::value_type;
  struct Job {
    Block block = {};
    std::vector<Outcome<Result>> outcomes = {};
  };
  constexpr size_t kMostFailures = 1000;
  compute(model, std::span<const Input>(), ProgressCallback());
  const int threads = how.most == 1 ? 1 : threads_for(settings, model);
  const auto& for_one = threads > 1 ? with_one_thread(model) : model;
  InputBlocks blocks(settings, inputs, how, threads);

  const auto attempt = [&](Job& job, std::span<const Input> some) {
    const auto before = size_t(some.data() - job.block.inputs.data());
    const ProgressCallback progress = [&](size_t done, size_t) { blocks.working(job.block, before + done); };
    try {
      auto results = compute(job.block.alone ? model : for_one, some, progress);
      for (size_t i = 0; i < some.size(); ++i) {
        job.outcomes[before + i].row = row(some[i], std::as_const(results[i]));
        job.outcomes[before + i].result = std::move(results[i]);
      }
    } catch (const UsageError&) {
      throw;
    } catch (const OutputError&) {
      throw;
    } catch (const Error& error) {
      if (some.size() == 1) job.outcomes[before].error = error;
      return false;
    }
    return true;
  };
  const auto work = [&](Job& job) {
    const std::span<const Input> all = job.block.inputs;
    job.outcomes.resize(all.size());
    if (all.empty() || attempt(job, all) || all.size() == 1) return;
    for (size_t i = 0; i < all.size(); ++i) attempt(job, all.subspan(i, 1));
  };

  size_t good = 0, failed = 0;
  const auto finish = [&](Job& job) {
    const Input* last = nullptr;  // of the block that is done
    const auto fail = [&](const Input& input, const Error& error) {
      try {
        inputs.fail(input, error);
      } catch (...) {  // --strict
        if (last) blocks.keep(*last);
        throw;
      }
      if (how.on_failure) how.on_failure(input);
      last = &input;
    };
    auto bad = job.block.bad.begin();
    const auto fail_before = [&](size_t index) {
      for (; bad != job.block.bad.end() && bad->index < index; ++bad) fail(*bad, *bad->problem);
    };
    for (size_t i = 0; i < job.outcomes.size(); ++i) {
      const Input& input = job.block.inputs[i];
      fail_before(input.index);
      Outcome<Result>& outcome = job.outcomes[i];
      if (outcome.error) {
        fail(input, *outcome.error);
        if (++failed >= kMostFailures && good == 0)
          throw Error(fmt::format("none of the first {} {} could be used", failed, how.what),
                      outcome.error->hint());
      } else {
        show(input, *outcome.result, outcome.row);
        ++good;
        last = &input;
      }
    }
    fail_before(SIZE_MAX);
    blocks.done(job.block);
  };
  try {
    blocks.skip_done();
    side_by_side<Job>(
        threads, [&](Job& job) { return blocks.read(job.block); }, work, finish, [&] { blocks.give_up(); });
    return blocks.finish();
  } catch (...) {  // a signal, a bad line under --strict, a file that cannot be read to its end, a full disk
    if (how.results) how.results->cut_off();
    throw;
  }
}

// The same for commands without rows for programs: show(input, result).
template <class Model, class Compute, class Show>
int for_each_input(const Settings& settings, Inputs& inputs, const ForEach& how, const Model& model,
                   const Compute& compute, const Show& show) {
  return for_each_input(
      settings, inputs, how, model, compute, [](const Input&, const auto&) { return std::string(); },
      [&](const Input& input, auto& result, const std::string&) { show(input, result); });
}

std::vector<std::string_view> texts_of(std::span<const Input> block);
std::vector<TextPair> pairs_of(std::span<const Input> block);

// What a line of JSON says of an input: a text, or the two of a pair.
JsonInput input_of(const Input& input, bool pair = false);
// The same for commands with one text, and perhaps --pair.
JsonInput input_of(std::string_view text, const std::optional<std::string>& pair);

// "3 of 90 texts had more than 512 tokens and were cut", and what to try.
void warn_if_cut(const Settings& settings, size_t cut, size_t count, std::string_view what, size_t length,
                 std::string_view hint);
// The same with what is to be tried of a model; `max_length` is where the one for heads is not meant.
void warn_if_cut(const Settings& settings, const TextModel& model, size_t cut, size_t count,
                 std::string_view what, std::optional<size_t> max_length = {});

// Where results are to be rows of CSV or TSV: what makes them.
std::optional<TableWriter> table_output(const Settings& settings);

std::string percent(float share);  // " 42.1%"
// "text 3: …" in gray, for the reader of several results; nothing where there is one.
void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text);

}  // namespace bertie::cli
