#include "train/teaching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "bertie/error.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tasks/modules.h"
#include "train/loop/trainer.h"
#include "train/ranks/rank_checks.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPart = 256;          // sequences that are computed and kept as one
constexpr size_t kBatchTokens = 4096;  // that the teacher reads at once
constexpr std::string_view kMagic = "bertie teacher 1";

// Logits, part after part: the magic word, the key, then of each part how many numbers, the numbers, and
// their checksum. What comes after the last whole part is written anew.
class LogitsFile {
 public:
  LogitsFile(fs::path path, uint64_t key) : path_(std::move(path)), key_(key) {
    std::error_code error;
    if (!fs::is_regular_file(path_, error)) return;
    file_.emplace(path_);
    const std::string_view text = file_->text();
    if (text.starts_with(header())) end_ = header().size();
  }

  // The next part, if it is there.
  bool read(std::span<float> out) {
    if (end_ == 0 || !file_) return false;
    const std::string_view rest = file_->text().substr(end_);
    const size_t bytes = out.size_bytes();
    if (rest.size() < bytes + 2 * sizeof(uint64_t) || number_at(rest, 0) != out.size()) return stop_reading();
    const std::string_view numbers = rest.substr(sizeof(uint64_t), bytes);
    if (number_at(rest, sizeof(uint64_t) + bytes) != io::checksum(numbers)) return stop_reading();
    std::copy(numbers.begin(), numbers.end(), reinterpret_cast<char*>(out.data()));
    end_ += bytes + 2 * sizeof(uint64_t);
    return true;
  }

  void write(std::span<const float> numbers) {
    if (!out_.is_open()) {
      stop_reading();
      if (end_ > 0) fs::resize_file(path_, end_);
      out_.open(path_, std::ios::binary | (end_ > 0 ? std::ios::app : std::ios::trunc));
      if (end_ == 0) out_ << header();
    }
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
    out_ << number(numbers.size()) << bytes << number(io::checksum(bytes)) << std::flush;
    if (!out_) throw Error(fmt::format("{} cannot be written", path_.string()), "is the disk full?", "out");
  }

 private:
  static std::string number(uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }
  static uint64_t number_at(std::string_view text, size_t place) {
    uint64_t n = 0;
    std::copy_n(text.data() + place, sizeof n, reinterpret_cast<char*>(&n));
    return n;
  }
  std::string header() const { return std::string(kMagic) + number(key_); }
  bool stop_reading() { return file_.reset(), false; }

  fs::path path_;
  uint64_t key_;
  std::optional<io::MappedFile> file_;
  size_t end_ = 0;  // of what is whole
  std::ofstream out_;
};

}  // namespace

std::vector<size_t> student_layers(const Teaching& t, size_t all) {
  std::vector<size_t> layers = t.layers;
  for (const size_t layer : layers)
    if (layer >= all)
      throw Error(fmt::format("the teacher has no layer {}: it has {}, from 0", layer, all),
                  fmt::format("`layers` up to {}", all - 1), "layers");
  if (!layers.empty()) return layers;
  const size_t depth = t.depth > 0 ? t.depth : std::max<size_t>(all / 2, 1);
  if (depth > all)
    throw Error(fmt::format("{} layers are more than the teacher's {}", depth, all),
                fmt::format("`layers` {}", std::max<size_t>(all / 2, 1)), "layers");
  for (size_t i = 0; i < depth; ++i)
    layers.push_back(depth == 1 ? 0 : size_t(std::lround(double(i * (all - 1)) / double(depth - 1))));
  return layers;
}

void check_teaching(const Teaching& t) {
  if (!(t.temperature > 0) || !std::isfinite(t.temperature))
    throw Error(fmt::format("`temperature` {} is not above 0", t.temperature), "`temperature` 2",
                "temperature");
  const auto check = [](const std::optional<double>& weight, const char* field) {
    if (weight && !(*weight >= 0 && std::isfinite(*weight)))
      throw Error(fmt::format("`{}` {} is not a number from 0 on", field, *weight),
                  fmt::format("`{}` 1", field), field);
  };
  check(t.soft_weight, "soft_weight");
  check(t.hard_weight, "hard_weight");
  check(t.hidden_weight, "hidden_weight");
  if (t.soft_weight == 0.0 && t.hard_weight == 0.0)
    throw Error("with weights of 0 there is nothing to learn", "a `soft_weight` above 0", "soft_weight");
}

uint64_t weights_checksum(const ModelFiles& files) {
  const io::SafeTensors all = io::SafeTensors::open(files);
  uint64_t sum = 0;
  for (const io::TensorInfo& t : all.tensors()) sum = io::checksum(t.data, sum);
  return sum;
}

std::optional<Problem> problem_of(const Config& config, TaskKind kind) {
  if (kind != TaskKind::kClassify && kind != TaskKind::kPair) return {};
  if (config.problem != Problem::kUnset) return config.problem;
  return config.labels.size() == 1 ? Problem::kRegression : Problem::kSingleLabel;
}

TaskTeacher::TaskTeacher(const std::string& name, TaskKind kind, int threads)
    : files_(transformer_files(ModelFiles(name))),
      kind_(kind),
      tokenizer_(Tokenizer::load(files_)),
      model_(Model::load(files_)),
      run_(model_, threads) {
  if (!model_.has(head_of(kind)))
    throw Error(fmt::format("the teacher {} was not trained to {}", name, name_of(kind)),
                fmt::format("a model that `finetune` {} made", name_of(kind)), "teacher");
}

size_t TaskTeacher::max_length() const {
  return std::min(model_.config().max_tokens(), tokenizer_.model_max_length());
}

// The logits of sequences first..end-1, at the places that have targets.
void TaskTeacher::logits_of(const EncodedTasks& all, size_t first, size_t end, std::span<float> out) {
  std::vector<int32_t> ids, types, offsets, rows;
  for (size_t s = first; s < end;) {
    ids.clear(), types.clear(), rows.clear(), offsets.assign(1, 0);
    do {
      for (size_t t = all.target_starts[s]; t < all.target_starts[s + 1] && kind_ == TaskKind::kTag; ++t)
        rows.push_back(offsets.back() + all.rows[t]);
      for (size_t t = all.starts[s]; t < all.starts[s + 1]; ++t)
        ids.push_back(all.ids[t]), types.push_back(all.types[t]);
      offsets.push_back(int32_t(ids.size()));
      ++s;
    } while (s < end && ids.size() + all.starts[s + 1] - all.starts[s] <= kBatchTokens);
    if (kind_ == TaskKind::kTag && rows.empty()) continue;  // which would mean all
    const Matrix<const float> logits =
        run_.forward({.ids = ids, .types = types, .offsets = offsets},
                     {.last_hidden = false, .head = head_of(kind_), .rows = rows})
            .logits;
    for (size_t r = 0; r < logits.rows(); ++r) {
      std::ranges::copy(logits[r], out.begin());
      out = out.subspan(logits.cols());
    }
  }
}

SoftTargets TaskTeacher::soft_targets(const Request& request, Collective& ranks,
                                      const std::function<bool(size_t done, size_t all)>& progress) {
  EncodedTasks all;
  for (const Dataset* data : request.data) encode_tasks(*data, tokenizer_, request.encoding, all);
  const bool tags = kind_ == TaskKind::kTag, answers = kind_ == TaskKind::kAnswer;
  SoftTargets soft{.columns = answers ? 2 : config().labels.size(), .tokens = all.checksum()};
  if (answers && soft.tokens != request.tokens)
    throw Error("the teacher reads other tokens than the student, and answers are places among them",
                "a student with the teacher's tokenizer", "teacher");
  const uint64_t key = io::chain(weights_checksum(files_), soft.tokens);
  check_same_run(ranks, {{"teacher", key}});
  const auto before = [&](size_t s) {  // rows of logits before sequence s
    return tags ? all.target_starts[s] : answers ? all.starts[s] : s;
  };
  std::optional<LogitsFile> file;
  if (ranks.rank() == 0) file.emplace(request.folder / fmt::format("teacher-{:016x}.bin", key), key);
  std::vector<float> logits(before(all.size()) * soft.columns);
  for (size_t first = 0; first < all.size(); first += kPart) {
    const size_t end = std::min(first + kPart, all.size());
    const auto part = [&](size_t from, size_t to) {
      const size_t begin = before(from) * soft.columns;
      return std::span(logits).subspan(begin, before(to) * soft.columns - begin);
    };
    const std::span<float> now = part(first, end);
    if (value_of_rank_0(ranks, file && file->read(now)) > 0) {
      ranks.broadcast(now);
    } else {
      const SharePart mine = part_of(end - first, size_t(ranks.rank()), size_t(ranks.size()));
      const size_t from = first + mine.first;
      logits_of(all, from, from + mine.count, part(from, from + mine.count));
      ranks.start_sum(now);  // the others' numbers are still 0
      ranks.finish_sums();
      if (!std::ranges::all_of(now, [](float x) { return std::isfinite(x); }))
        throw Error(fmt::format("{}: the teacher gives numbers that are not finite", files_.name()),
                    "another teacher", "teacher");
      if (file) file->write(now);
    }
    double stop = progress && progress(end, all.size());
    ranks.sum({&stop, 1});
    if (stop > 0) throw Trainer::EvaluationStopped{};
  }
  if (!tags) {
    soft.logits = std::move(logits);
    return soft;
  }
  soft.logits.assign(all.data_words * soft.columns, NAN);
  for (size_t t = 0; t < all.words.size(); ++t)
    std::copy_n(logits.begin() + ptrdiff_t(t * soft.columns), soft.columns,
                soft.logits.begin() + ptrdiff_t(all.words[t] * soft.columns));
  return soft;
}

}  // namespace bertie
