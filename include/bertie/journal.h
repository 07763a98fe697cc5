#pragma once
// How far a long piece of work is, in a small file beside its results: whoever is cut off, also by kill -9 or
// a full disk, goes on where the last mark is.
//
//   bertie::Journal journal("vectors.npy.part.journal", R"({"command":"embed"})");
//   const size_t done = journal.marks().empty() ? 0 : journal.marks().back().inputs;
//   …                                            // results of inputs `done` and on, written through to their
//   file journal.add({.inputs = …, .bytes = …});      // after them
//
// The file is text: what the work is, a JSON object; then a line for each mark, its numbers with spaces
// between them; and "end" where all of it is done. A last line without its end was cut off, and does not
// count.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bertie/export.h"

namespace bertie {

struct Mark {
  uint64_t inputs = 0;  // that are done, from the first on
  uint64_t sum = 0;     // a checksum of them, by which whoever goes on knows them again
  uint64_t bytes = 0;   // of results
  uint64_t failed = 0;  // inputs of which there is no result
  uint64_t cut = 0;     // inputs that were longer than the model takes
};

// One process at a time: it is locked. One thread at a time. Throws Error.
class BERTIE_API Journal {
 public:
  // Begins one, or goes on with the one that is there: an Error, that says in what they differ, where it is
  // that of other work, and where another process has it. `work` is a JSON object in one line.
  Journal(const std::filesystem::path& path, const std::string& work);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // One that another process may still write to.
  struct Content {
    std::string work = {};
    std::vector<Mark> marks = {};
    std::vector<uint64_t> ends = {};  // where the line of each ends, in bytes
    bool ended = false;
  };
  static Content read(const std::filesystem::path& path);

  const std::vector<Mark>& marks() const { return content_.marks; }  // those that were there
  bool ended() const { return content_.ended; }
  // Takes the last mark back, of results that are not there: what is behind the one before is made again.
  void drop_last();
  void add(const Mark& mark);
  void end();  // all of it is done

 private:
  void write(const std::string& line);
  void cut_to_content();

  std::filesystem::path path_;
  Content content_;
  int file_ = -1;
};

}  // namespace bertie
