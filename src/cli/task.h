#pragma once
// What the commands over many inputs share: going through them, warnings, and scores for the eye.
#include <functional>
#include <initializer_list>
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
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

// UsageError for an option that was given and would do nothing: "--stride is for tasks".
void refuse(std::initializer_list<std::pair<bool, const char*>> given, std::string_view why);

struct ForEach {
  std::string_view what = "texts";  // are the inputs
  size_t most = 256;                // inputs that are computed together
  bool shows_results = true;        // on standard output, while it goes on
  std::string where = {};           // they go to, for the last line of progress
  std::string_view failed = {};     // what becomes of those that could not be used
};

// A few batches' worth of inputs at a time, so that memory is bounded and progress moves; but no more than
// there are without waiting: whoever feeds us line by line gets answers line by line.
class InputBlocks {
 public:
  InputBlocks(const Settings& settings, Inputs& inputs, const ForEach& how);

  bool next();  // false at the end
  std::span<const Input> block() const { return block_; }
  void working(size_t done);  // now and then: so many of the block are computed
  void done();                // with a block: results are out, progress moves
  int finish();               // says what is to be said at the end; the exit code

 private:
  void show_progress(size_t count, double bytes);

  Inputs& inputs_;
  ForEach how_;
  ProgressLine progress_;
  double read_ = 0;  // bytes, before the block
  std::vector<Input> block_;
  std::optional<Error> error_;  // after the block
};

// compute(inputs, progress) gives a result for each of some inputs, and calls progress where it takes long;
// show(input, result) prints one. An Error of compute is about one input, and the others go on; --strict ends
// at the first. But an Error for no inputs at all is about the options, and so it seems to be where the first
// thousand fail. Errors of show are passed on. Returns the exit code.
template <class Compute, class Show>
int for_each_input(const Settings& settings, Inputs& inputs, const ForEach& how, const Compute& compute,
                   const Show& show) {
  constexpr size_t kMostFailures = 1000;
  compute(std::span<const Input>(), ProgressCallback());
  InputBlocks blocks(settings, inputs, how);
  size_t good = 0, bad = 0;
  // Whether all of them went through; throws where that is not for one input to say.
  const auto attempt = [&](std::span<const Input> some) {
    const auto before = size_t(some.data() - blocks.block().data());
    const ProgressCallback progress = [&](size_t done, size_t) { blocks.working(before + done); };
    decltype(compute(some, progress)) results;
    try {
      results = compute(some, progress);
    } catch (const UsageError&) {
      throw;
    } catch (const OutputError&) {
      throw;
    } catch (const Error& error) {
      if (some.size() > 1) return false;
      inputs.fail(some[0], error);
      if (++bad >= kMostFailures && good == 0)
        throw Error(fmt::format("none of the first {} {} could be used", bad, how.what), error.hint());
      return false;
    }
    for (size_t i = 0; i < some.size(); ++i) show(some[i], results[i]);
    good += some.size();
    return true;
  };
  while (blocks.next()) {
    const std::span<const Input> block = blocks.block();
    if (!attempt(block) && block.size() > 1)
      for (size_t i = 0; i < block.size(); ++i) attempt(block.subspan(i, 1));
    blocks.done();
  }
  return blocks.finish();
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
void print_header(TableWriter& table, std::span<const std::string_view> columns);

std::string percent(float share);  // " 42.1%"
// "text 3: …" in gray, for the reader of several results; nothing where there is one.
void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text);

}  // namespace bertie::cli
