#include "train/data/task_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/checked.h"
#include "core/random.h"
#include "io/checksum.h"
#include "io/json.h"

namespace bertie {
namespace {

const char* term_name(TaskKind kind) {
  return kind == TaskKind::kTag ? "word" : kind == TaskKind::kAnswer ? "answer" : "row";
}

EncodedTasks encode_all(const Dataset& data, const Tokenizer& tokenizer, const TaskSourceOptions& options) {
  EncodedTasks all;
  encode_tasks(data, tokenizer, options.encoding, all);
  if (options.unlabeled) encode_tasks(*options.unlabeled, tokenizer, options.encoding, all);
  if (all.size() == 0) throw Error(fmt::format("{}: there is nothing to learn from", data.file));
  return all;
}

class Tasks final : public TaskSource {
 public:
  Tasks(const Dataset& data, const Tokenizer& tokenizer, const TaskSourceOptions& options)
      : all_(encode_all(data, tokenizer, options)),
        kind_(data.kind),
        problem_(data.kind == TaskKind::kTag || data.kind == TaskKind::kAnswer ? Problem::kSingleLabel
                                                                               : data.problem),
        columns_(problem_ == Problem::kMultiLabel ? data.labels.size() : 1),
        seed_(options.seed) {
    const bool accuracy = problem_ != Problem::kRegression;
    if (!options.teacher || options.hard_weight > 0) {
      hard_ = terms_.size();
      terms_.push_back({.name = term_name(kind_),
                        .head = head_of(kind_),
                        .weight = options.teacher ? options.hard_weight : 1,
                        .has_accuracy = accuracy,
                        .class_weights = options.class_weights,
                        .smoothing = options.smoothing});
    }
    if (options.teacher) {
      soft_ = terms_.size();
      terms_.push_back({.name = "teacher",
                        .head = head_of(kind_),
                        .weight = options.soft_weight,
                        .has_accuracy = accuracy,
                        .temperature = options.temperature});
      set_teacher(*options.teacher, data);
    }
    hash_ = all_.checksum();
    hash_ = io::checksum(std::as_bytes(std::span(all_.targets)), hash_);
    hash_ = io::checksum(std::as_bytes(std::span(all_.values)), hash_);
    if (teacher_) hash_ = io::checksum(std::as_bytes(std::span(teacher_->logits)), hash_);
    hash_ = io::chain(hash_, seed_);
  }

  size_t sequences() const override { return all_.size(); }
  size_t truncated() const override { return all_.truncated; }
  size_t longest() const override { return all_.longest; }
  uint64_t tokens() const override { return all_.ids.size(); }
  uint64_t checksum() const override { return all_.checksum(); }
  std::span<const TermSpec> terms() const override { return terms_; }

  void begin_step(size_t count) override {
    step_ = next_;
    next_ += count;
  }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (uint64_t at = step_ + first; at < step_ + first + count; ++at) {
      const size_t i = shuffled(at % sequences(), sequences(), seed_, at / sequences());
      if (hard_) add_targets(i, into.offsets.back(), into.terms[*hard_]);
      if (soft_) add_teacher(i, into.offsets.back(), into.terms[*soft_]);
      append(into.ids, all_.ids, all_.starts[i], all_.starts[i + 1]);
      append(into.types, all_.types, all_.starts[i], all_.starts[i + 1]);
      into.offsets.push_back(int32_t(into.ids.size()));
    }
  }

  std::string cursor() const override { return fmt::format("{}{}", signature(), next_); }
  void seek(const std::string& cursor) override {
    const std::string mine = signature();
    uint64_t at = 0;
    if (!cursor.starts_with(mine) || !parse_number(std::string_view(cursor).substr(mine.size()), at))
      throw Error("the run had other rows, other labels or another tokenizer",
                  "the same data, model and `seed` as the run had", "train_file");
    next_ = at;
  }
  double epochs() const override { return double(next_) / double(sequences()); }

 private:
  static void append(auto& to, const auto& from, size_t begin, size_t end) {
    to.insert(to.end(), from.begin() + ptrdiff_t(begin), from.begin() + ptrdiff_t(end));
  }

  // The labels of sequence i, which begins at this row of the batch.
  void add_targets(size_t i, int32_t row, BatchStorage::Term& term) const {
    for (size_t t = all_.target_starts[i]; t < all_.target_starts[i + 1] && !all_.rows.empty(); ++t)
      term.rows.push_back(row + all_.rows[t]);
    append(term.targets, all_.targets, all_.target_starts[i], all_.target_starts[i + 1]);
    if (!all_.values.empty()) append(term.values, all_.values, i * columns_, (i + 1) * columns_);
  }

  // What the teacher says of it.
  void add_teacher(size_t i, int32_t row, BatchStorage::Term& term) const {
    const size_t columns = teacher_->columns;
    const auto add = [&](size_t first, size_t end) {
      if (problem_ == Problem::kSingleLabel)
        return append(term.teacher, teacher_->logits, first * columns, end * columns);
      for (size_t k = first * columns; k < end * columns; ++k) term.values.push_back(value(k));
    };
    term.teacher_columns = columns;
    if (kind_ == TaskKind::kAnswer) return add(all_.starts[i], all_.starts[i + 1]);
    if (kind_ != TaskKind::kTag) return add(i, i + 1);
    for (size_t t = all_.target_starts[i]; t < all_.target_starts[i + 1]; ++t) {
      const size_t word = all_.words[t];
      if (std::isnan(teacher_->logits[word * columns])) continue;
      term.rows.push_back(row + all_.rows[t]);
      add(word, word + 1);
    }
  }

  // Of several labels the teacher's probability of one; of a regression its number.
  float value(size_t k) const {
    const float logit = teacher_->logits[k];
    return problem_ == Problem::kMultiLabel ? 1 / (1 + std::exp(-logit)) : logit;
  }

  void set_teacher(const SoftTargets& teacher, const Dataset& data) {
    teacher_ = &teacher;
    const bool answer = kind_ == TaskKind::kAnswer;
    const size_t wanted = kind_ == TaskKind::kTag ? all_.data_words : answer ? all_.ids.size() : all_.size();
    const size_t columns = answer ? 2 : problem_ == Problem::kRegression ? 1 : data.labels.size();
    if (teacher.columns != columns || teacher.logits.size() != wanted * columns ||
        (answer && teacher.tokens != all_.checksum()))
      throw Error("the teacher's logits are not for what the student reads", "", "teacher");
    for (size_t v = 0; v < all_.values.size(); ++v)
      if (std::isnan(all_.values[v])) all_.values[v] = value(v);
  }

  std::string signature() const { return fmt::format("task:{}:{:016x}:", sequences(), hash_); }

  EncodedTasks all_;
  const SoftTargets* teacher_ = nullptr;
  TaskKind kind_;
  Problem problem_;
  size_t columns_;  // of all_.values
  uint64_t seed_, hash_ = 0;
  std::vector<TermSpec> terms_;
  std::optional<size_t> hard_, soft_;  // places in it
  uint64_t step_ = 0, next_ = 0;
};

}  // namespace

std::unique_ptr<TaskSource> make_task_source(const Dataset& data, const Tokenizer& tokenizer,
                                             const TaskSourceOptions& options) {
  return std::make_unique<Tasks>(data, tokenizer, options);
}

Head head_of(TaskKind kind) {
  return kind == TaskKind::kTag ? Head::kTag : kind == TaskKind::kAnswer ? Head::kAnswer : Head::kClassify;
}

}  // namespace bertie
