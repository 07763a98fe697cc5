#include "train/data/subset_source.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/json.h"

namespace bertie {
namespace {

void append(std::vector<int32_t>& to, const std::vector<int32_t>& from, size_t shift = 0) {
  for (const int32_t value : from) to.push_back(value + int32_t(shift));
}

// Where sequences end, without the 0 at the front of the second part.
void append_offsets(std::vector<int32_t>& to, const std::vector<int32_t>& from, size_t shift) {
  for (size_t i = to.empty() ? 0 : 1; i < from.size(); ++i) to.push_back(from[i] + int32_t(shift));
}

void append(BatchStorage& to, const BatchStorage& from) {
  // Rows are those of what the head reads: a decoder's, where there is one.
  append(to.rows, from.rows, from.target_offsets.empty() ? to.ids.size() : to.target_ids.size());
  append_offsets(to.offsets, from.offsets, to.ids.size());
  append_offsets(to.target_offsets, from.target_offsets, to.target_ids.size());
  append(to.ids, from.ids), append(to.types, from.types), append(to.target_ids, from.target_ids);
  append(to.targets, from.targets), append(to.labels, from.labels);
}

class SubsetSource : public BatchSource {
 public:
  SubsetSource(std::unique_ptr<BatchSource> source, size_t all, size_t count)
      : source_(std::move(source)), all_(all), count_(count) {
    source_->begin_step(all);
  }

  void begin_step(size_t count) override { first_ = next_, next_ += count; }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    for (size_t i = first_ + first; i < first_ + first + count; ++i) {
      // In two parts, for i·all may not fit.
      const size_t at = i % count_;
      source_->make(at * (all_ / count_) + at * (all_ % count_) / count_, 1, one_);
      append(into, one_);
    }
  }

  std::string cursor() const override { return fmt::format("{}", next_); }
  void seek(const std::string& cursor) override {
    if (!parse_number(cursor, next_))
      throw Error(fmt::format("{} is no place in the data", io::quote(cursor)));
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
