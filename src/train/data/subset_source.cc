#include "train/data/subset_source.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/json.h"

namespace bertie {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append_shifted(std::vector<int32_t>& to, std::span<const int32_t> from, size_t shift) {
  for (const int32_t value : from) to.push_back(value + int32_t(shift));
}

void append(BatchStorage& to, const BatchStorage& from) {
  for (size_t i = 0; i < to.terms.size(); ++i) {
    BatchStorage::Term& t = to.terms[i];
    const BatchStorage::Term& f = from.terms[i];
    // Rows are those of what the head reads: the decoder's input, where there is one.
    append_shifted(t.rows, f.rows, from.target_offsets.empty() ? to.ids.size() : to.target_ids.size());
    append(t.targets, f.targets), append(t.values, f.values), append(t.teacher, f.teacher);
    t.teacher_columns = f.teacher_columns;
  }
  // Where sequences end; only the first part keeps its 0 at the front.
  const auto append_offsets = [](auto& offsets, const auto& more, size_t shift) {
    if (!more.empty()) append_shifted(offsets, std::span(more).subspan(!offsets.empty()), shift);
  };
  append_offsets(to.offsets, from.offsets, to.ids.size());
  append_offsets(to.target_offsets, from.target_offsets, to.target_ids.size());
  append(to.ids, from.ids), append(to.types, from.types), append(to.target_ids, from.target_ids);
  append(to.teacher_hidden, from.teacher_hidden);
}

class SubsetSource : public BatchSource {
 public:
  SubsetSource(std::unique_ptr<BatchSource> source, size_t all, size_t count)
      : source_(std::move(source)), all_(all), count_(count), one_(source_->terms()) {
    source_->begin_step(all);
  }

  std::span<const TermSpec> terms() const override { return source_->terms(); }
  void begin_step(size_t count) override { first_ = next_, next_ += count; }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    for (size_t i = first_ + first; i < first_ + first + count; ++i) {
      // at·all/count in two parts, because at·all may overflow.
      const size_t at = i % count_;
      source_->make(at * (all_ / count_) + at * (all_ % count_) / count_, 1, one_);
      append(into, one_);
    }
  }

  std::string cursor() const override { return fmt::format("{}", next_); }
  void seek(const std::string& cursor) override {
    if (!parse_number(cursor, next_))
      throw Error(fmt::format("{} is not a position in the data", io::quote(cursor)));
  }
  double epochs() const override { return double(next_) / double(count_); }

 private:
  std::unique_ptr<BatchSource> source_;
  size_t all_, count_;
  size_t first_ = 0, next_ = 0;
  BatchStorage one_;
};

}  // namespace

std::unique_ptr<BatchSource> make_subset_source(std::unique_ptr<BatchSource> source, size_t all,
                                                size_t count) {
  return std::make_unique<SubsetSource>(std::move(source), all, count);
}

}  // namespace bertie
