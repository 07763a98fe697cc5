#include "train/data/taught_source.h"

namespace bertie {
namespace {

class TaughtSource final : public BatchSource {
 public:
  TaughtSource(std::unique_ptr<BatchSource> source, const Model& teacher, const TaughtSourceOptions& options)
      : source_(std::move(source)), teacher_(teacher), run_(teacher_, options.threads, options.bf16) {
    terms_.assign(source_->terms().begin(), source_->terms().end());
    const Head head = terms_[0].head;
    terms_[0].weight *= options.hard_weight;
    if (options.soft_weight > 0)
      terms_.push_back({.name = "teacher",
                        .head = head,
                        .weight = options.soft_weight,
                        .temperature = options.temperature,
                        .teacher_model = &teacher_});
    if (options.hidden_weight > 0)
      terms_.push_back({.name = "hidden",
                        .head = head,
                        .weight = options.hidden_weight,
                        .has_accuracy = false,
                        .matches_hidden = true});
  }

  std::span<const TermSpec> terms() const override { return terms_; }
  void set_progress(double progress) override { source_->set_progress(progress); }
  void begin_step(size_t count) override { source_->begin_step(count); }
  void make(size_t first, size_t count, BatchStorage& into) override {
    source_->make(first, count, into);
    const Matrix<const float> hidden = run_.forward(into.batch()).last_hidden;
    into.teacher_hidden.assign(hidden.data(), hidden.data() + hidden.rows() * hidden.cols());
  }

  std::string cursor() const override { return source_->cursor(); }
  void seek(const std::string& cursor) override { source_->seek(cursor); }
  double epochs() const override { return source_->epochs(); }

 private:
  std::unique_ptr<BatchSource> source_;
  Model teacher_;
  Run run_;
  std::vector<TermSpec> terms_;
};

}  // namespace

std::unique_ptr<BatchSource> make_taught_source(std::unique_ptr<BatchSource> source, const Model& teacher,
                                                const TaughtSourceOptions& options) {
  return std::make_unique<TaughtSource>(std::move(source), teacher, options);
}

}  // namespace bertie
