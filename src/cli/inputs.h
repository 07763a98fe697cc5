#pragma once
// What the task commands work on, one input after the other: a text a line, or two texts a line.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/input.h"
#include "cli/progress.h"

namespace bertie::cli {

struct Input {
  std::string a, b;
};

// The names of a line's two texts where it is JSON.
struct Fields {
  std::string_view a, b;
};
inline constexpr Fields kPairFields{"text", "text_pair"}, kQuestionFields{"question", "context"};

class Inputs {
 public:
  // Each word and each line is a text.
  explicit Inputs(const Settings& settings);
  // Two words are one input. A line is two texts with a tab between them, or a JSON object.
  Inputs(const Settings& settings, Fields fields);
  // Each word and each line is a question about the same context.
  Inputs(const Settings& settings, std::string context);

  bool next(Input& input);
  bool ready() const { return texts_.ready(); }
  const Texts& texts() const { return texts_; }
  size_t count() const { return count_; }  // given out

 private:
  void split(std::string& line, Input& input) const;

  std::optional<Fields> fields_;
  std::optional<std::string> context_;
  std::optional<Input> first_;  // from the command line
  Texts texts_;
  size_t count_ = 0;
};

// Calls work(inputs, index of the first) for a few batches' worth of inputs at a time, so that memory is
// bounded and progress moves. Whoever feeds us line by line gets answers line by line.
void for_each_block(Inputs& inputs, Progress& progress,
                    const std::function<void(std::span<Input> block, size_t first)>& work);

// The whole of a file; "-" is standard input.
std::string read_whole(const std::string& file);

}  // namespace bertie::cli
