#pragma once
// Where results for programs go: to standard output, or to a file (-o, --npy) that grows as they come, so
// that work that was cut off is gone on with; and which inputs are this process's where several share them.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bertie/result_file.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"

namespace bertie::cli {

// Of several processes (mpirun started them, or --part says so) each takes a stripe of inputs in its turn.
struct Share {
  static constexpr size_t kStripe = 128;
  size_t rank = 0, ranks = 1;

  bool has(size_t input) const { return input / kStripe % ranks == rank; }
  bool ends_stripe(size_t input) const { return ranks > 1 && (input + 1) % kStripe == 0; }
};
Share share_of(const Settings& settings);

// The settings of a command whose results can go to a file, made plain: its name says the format where no
// option does, and -o vectors.npy is --npy. UsageError where they make no sense together, such as --resume
// and no file.
Settings with_result_file(const Settings& given);

// What the work is, so that other work is not taken for it, as a JSON object: the version, the model, and
// every option but those that change no result. The inputs are known by their checksums.
std::string describe_work(const Settings& settings, Work work);

// Results that are kept as they come.
class KeptResults {
 public:
  virtual ~KeptResults() = default;
  virtual Share share() const { return {}; }
  virtual Mark done() const = 0;  // what is there already
  virtual bool is_all_done() const { return false; }
  virtual void mark(const Mark& mark) = 0;
  // All inputs are done, so many: what became of them. Nothing where others share them and are still at work.
  virtual std::optional<Mark> finish(const Mark& all) = 0;
  virtual void cut_off() = 0;  // says what is kept, and how to go on
};

class ResultOutput final : public KeptResults {
 public:
  // `front` is what a file begins with, of the number of inputs but always as long: the head of a table or of
  // an array. `settings` are those of with_result_file.
  ResultOutput(const Settings& settings, Work work, std::function<std::string(uint64_t inputs)> front = {});

  bool to_file() const { return file_.has_value(); }
  // "", or ", to vectors.npy" for the end of a sentence.
  std::string where() const;
  void put(std::string_view rows);  // to the file, or else to standard output
  KeptResults* kept() { return file_ ? this : nullptr; }

  Share share() const override { return share_; }
  Mark done() const override { return file_->done(); }
  bool is_all_done() const override { return file_->ended(); }
  void mark(const Mark& mark) override;
  std::optional<Mark> finish(const Mark& all) override;
  void cut_off() override;

 private:
  Settings settings_;
  std::string path_;
  Share share_;
  std::optional<ResultFile> file_;
  std::optional<StopInOrder> stop_;
  Mark last_;  // that was made
};

// The header of a table, as ResultOutput takes it; nothing where the results are no table.
std::function<std::string(uint64_t)> table_front(const Settings& settings,
                                                 std::span<const std::string_view> columns);

}  // namespace bertie::cli
