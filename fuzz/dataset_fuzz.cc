// Any bytes as labelled data: an Error, or rows whose labels, tags and answers are in their places. The first
// byte chooses the task and what the file is called. tests/train/hostile_dataset_test.cc runs it on mutations
// of small files.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bertie/dataset.h"
#include "bertie/table.h"
#include "bertie/utf8.h"
#include "refused.h"

namespace bertie {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void check_dataset(const Dataset& data) {
  const auto place = [&](int32_t label) { require(label >= 0 && size_t(label) < data.labels.size()); };
  for (const TextExample& row : data.texts) {
    require(row.line > 0 && is_valid_utf8(row.a) && is_valid_utf8(row.b));
    for (const int32_t label : row.labels) place(label);
    require(!data.labeled || data.problem != Problem::kSingleLabel || row.labels.size() == 1);
  }
  for (const TaggedSentence& sentence : data.sentences) {
    require(!sentence.words.empty() &&
            (sentence.tags.empty() || sentence.tags.size() == sentence.words.size()));
    for (const int32_t tag : sentence.tags) place(tag);
  }
  for (const SquadQuestion& question : data.questions) {
    const CodePoints context(question.context);
    for (const SquadQuestion::Answer& answer : question.answers) {
      const size_t end = answer.start + CodePoints(answer.text).size();
      require(end <= context.size());
      require(context.at({uint32_t(answer.start), uint32_t(end)}) == answer.text);
    }
  }
  if (data.size() < 2) return;
  const SplitDataset parts = split(data, 0.3, 1);
  require(parts.train.size() > 0 && parts.dev.size() > 0 &&
          parts.train.size() + parts.dev.size() == data.size());
}

struct TemporaryPlace {
  std::string folder = (std::filesystem::temp_directory_path() / "bertie-fuzz-XXXXXX").string();
  TemporaryPlace() { require(mkdtemp(folder.data()) != nullptr); }
  ~TemporaryPlace() { std::filesystem::remove_all(folder); }
};

}  // namespace bertie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  if (size == 0) return kRefused;
  static constexpr const char* kNames[] = {"", ".csv", ".tsv", ".jsonl", ".json", ".conll"};
  const auto kind = TaskKind(data[0] % 4);
  // A file in memory under a name of its own: a link to it.
  const int file = memfd_create("dataset", MFD_CLOEXEC);
  require(file >= 0 && write(file, data + 1, size - 1) == ssize_t(size - 1));
  static const TemporaryPlace place;
  const std::string path = place.folder + "/data" + kNames[data[0] % 128 / 4 % 6];
  (void)unlink(path.c_str());
  require(symlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.c_str()) == 0);
  int result = 0;
  try {
    TextRows rows(kind, path);
    for (TextRow row; rows.next(row);) {
    }
  } catch (const Error&) {
  }
  try {
    check_dataset(read_dataset(kind, path, {.labels_needed = data[0] < 128, .skip_bad = true}));
  } catch (const Error&) {
    result = kRefused;
  }
  try {  // labels in columns of their own; answers wherever they stand
    const Dataset other =
        read_dataset(kind, path, {.text = "1", .label = "2,3", .places_needed = false, .skip_bad = true});
    if (kind != TaskKind::kAnswer) check_dataset(other);
  } catch (const Error&) {
  }
  close(file);
  return result;
}
