#pragma once
// A file of results, written piece by piece and gone on with where its writer was cut off; by one process, or
// by several that share the inputs.
//
//   bertie::ResultFile file("vectors.npy", {.work = …, .resume = true});
//   …                                    // results of inputs file.done().inputs and on
//   file.add(bytes), file.mark({.inputs = …});
//   file.finish(front);                  // the file has its name
//
// Until it is whole, results are in vectors.npy.part, and how far they are in vectors.npy.part.journal
// (bertie/journal.h). Of several processes each has its own, vectors.npy.part-2-of-4, with the results of its
// own inputs; whoever is last puts them together. Then nothing but vectors.npy is left.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bertie/export.h"
#include "bertie/journal.h"

namespace bertie {

struct ResultFileOptions {
  std::string work = "{}";  // what it is, a JSON object: the same where it is gone on with
  // What the file begins with, before the results: of the number of inputs, but always as long.
  std::function<std::string(uint64_t inputs)> front = {};
  bool resume = false;  // go on with what was begun; without it, that is an Error
  bool force = false;   // begin anew, and replace a file that is there
  size_t rank = 0, ranks = 1;
};

// One thread at a time. Throws Error.
class BERTIE_API ResultFile {
 public:
  ResultFile(const std::filesystem::path& path, const ResultFileOptions& options);
  ~ResultFile();  // without finish(): what is marked stays; where nothing is, nothing stays
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  const Mark& done() const;          // what was done before; its bytes are this object's affair
  bool ended() const;                // all of it was: finish() is what is left
  void add(std::string_view bytes);  // at the end
  void mark(const Mark& mark);       // results of so many inputs are there, and outlive the process
  // All is there: `all` counts all inputs. What all processes did together, where this one was the last and
  // the file is whole; nothing where others are still at work.
  std::optional<Mark> finish(const Mark& all);

  // Where this process writes to meanwhile: vectors.npy.part.
  const std::filesystem::path& part() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
