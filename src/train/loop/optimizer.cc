#include "train/loop/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "io/json.h"
#include "kernels/muon.h"
#include "kernels/optimize.h"

namespace bertie {
namespace {

void check_update(const TrainOptions& o) {
  const auto need = [](bool good, const char* field, double value, const char* range) {
    if (!good) throw Error(fmt::format("`{}` is {}, which makes no sense", field, value), range, field);
  };
  need(o.rate > 0 && std::isfinite(o.rate), "rate", o.rate, "a number above 0, such as 1e-4");
  need(o.beta1 >= 0 && o.beta1 < 1, "beta1", o.beta1, "a number from 0 to below 1, such as 0.9");
  need(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2, "a number from 0 to below 1, such as 0.999");
  need(o.eps > 0 && std::isfinite(o.eps), "eps", o.eps, "a small number above 0, such as 1e-6");
  need(o.decay >= 0 && std::isfinite(o.decay), "decay", o.decay, "a number from 0 on, such as 0.01");
  need(o.average >= 0 && o.average < 1, "average", o.average, "a number from 0 to below 1, such as 0.999");
  need(o.clip >= 0, "clip", o.clip, "a number above 0, or 0 for no limit");
  const double outlier = o.outlier.value_or(kOutlier);
  need(outlier == 0 || outlier > 1, "outlier", outlier, "a number above 1, or 0 for none");
}

}  // namespace

Optimizer::Optimizer(Learner& learner, const TrainOptions& options)
    : learner_(learner),
      options_(options),
      count_(learner.parameters().size()),
      m_(count_ * sizeof(float)),
      v_(count_ * sizeof(float)),
      mean_(options.average > 0 ? count_ * sizeof(float) : 0) {
  check_update(options);
  for (const Segment& s : learner.segments()) {
    if (!goes_by_muon(s)) continue;
    for (size_t which = 0; which < s.hidden.count; ++which) matrices_.push_back({&s, which});
    workspace_floats_ = std::max(workspace_floats_, kernels::muon_workspace_floats(s.hidden));
  }
  workspaces_ = Block(workspace_floats_ * size_t(learner.team().threads()) * sizeof(float));
}

void Optimizer::forget_moments() {
  kernels::clear(first_moments(), learner_.team());
  kernels::clear(second_moments(), learner_.team());
  moment_updates_ = 0;
}

bool Optimizer::goes_by_muon(const Segment& s) const {
  return options_.method == OptimizerMethod::kMuon && s.hidden.count > 0 && s.rate > 0;
}

double Optimizer::norm() const {
  return std::sqrt(kernels::sum_of_squares(learner_.gradients(), learner_.team()));
}

StepTaken Optimizer::step(double rate, double norm) {
  StepTaken result{.norm = norm};
  result.taken = std::isfinite(norm) && !is_outlier(norm, result.median);
  if (std::isfinite(norm)) remember(norm);
  if (!result.taken) {
    ++skipped_, ++in_a_row_;
    kernels::clear(learner_.gradients(), learner_.team());
    return result;
  }
  in_a_row_ = 0;
  ++updates_, ++moment_updates_;
  // As PyTorch's clip_grad_norm_ has it, with the 1e-6 that keeps it from dividing by 0.
  update(rate, options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1);
  update_mean();
  return result;
}

void Optimizer::update_mean() {
  if (mean().empty()) return;
  const double u = double(updates_),
               kept = std::min(options_.average, (1 + u) / (10 + u));  // as TensorFlow's
  kernels::move_mean(float(1 - kept), learner_.parameters(), mean(), learner_.team());
}

void Optimizer::update(double rate, double scale) {
  const bool bias_correction = options_.method != OptimizerMethod::kBertAdam;
  kernels::AdamStep step{
      .rate = rate, .beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps, .scale = scale};
  if (bias_correction) {
    step.correction1 = 1 / (1 - std::pow(options_.beta1, double(moment_updates_)));
    step.correction2 = 1 / (1 - std::pow(options_.beta2, double(moment_updates_)));
  }
  const std::span<float> p = learner_.parameters(), g = learner_.gradients();
  for (const Segment& s : learner_.segments()) {
    if (s.rate == 0 || goes_by_muon(s)) continue;  // frozen, or below
    step.rate = rate * s.rate;
    step.decay = s.decays ? options_.decay : 0;
    // LAMB's authors leave out what does not decay: a bias of 0 has no length to follow.
    const auto one =
        options_.method == OptimizerMethod::kLamb && s.decays ? kernels::lamb_update : kernels::adam_update;
    one(step, p.subspan(s.first, s.count), g.subspan(s.first, s.count),
        first_moments().subspan(s.first, s.count), second_moments().subspan(s.first, s.count),
        learner_.team());
  }
  learner_.team().parallel_for(matrices_.size(), [&](size_t i, size_t worker) {
    const auto [segment, which] = matrices_[i];
    const Segment& s = *segment;
    kernels::muon_update({.rate = rate * s.rate,
                          .decay = s.decays ? options_.decay : 0,
                          .scale = scale,
                          .products = options_.bf16 ? kernels::Products::kAmx : kernels::Products::kFloat32},
                         s.hidden, which, p.subspan(s.first, s.count), g.subspan(s.first, s.count),
                         first_moments().subspan(s.first, s.count),
                         workspaces_.as<float>() + worker * workspace_floats_);
  });
  for (const HiddenMatrix& m : matrices_)
    if (m.which == 0) kernels::clear(g.subspan(m.segment->first, m.segment->count), learner_.team());
}

bool Optimizer::is_outlier(double norm, double& median) const {
  const size_t have = size_t(std::min<uint64_t>(seen_, kNorms));
  const double outlier = options_.outlier.value_or(kOutlier);
  if (outlier == 0 || have < kEnough) return false;
  std::array<double, kNorms> sorted = norms_;
  std::nth_element(sorted.begin(), sorted.begin() + have / 2, sorted.begin() + have);
  median = sorted[have / 2];
  // What is below the clip is no outlier: when nearly everything is learned, norms are small and vary a lot.
  return median > 0 && norm > std::max(outlier * median, options_.clip);
}

void Optimizer::remember(double norm) { norms_[seen_++ % kNorms] = norm; }

nlohmann::ordered_json Optimizer::counters() const {
  const size_t have = size_t(std::min<uint64_t>(seen_, kNorms));
  return {{"updates", updates_},
          {"skipped", skipped_},
          {"skipped_in_a_row", in_a_row_},
          {"moment_updates", moment_updates_},
          {"norms_seen", seen_},
          {"norms", std::vector<double>(norms_.begin(), norms_.begin() + ptrdiff_t(have))}};
}

void Optimizer::set_counters(const nlohmann::json& counters, const std::string& name) {
  constexpr size_t kMost = size_t{1} << 53;
  updates_ = io::get_size(counters, "updates", name, {}, kMost);
  moment_updates_ = io::get_size(counters, "moment_updates", name, updates_, kMost);
  skipped_ = io::get_size(counters, "skipped", name, {}, kMost);
  in_a_row_ = io::get_size(counters, "skipped_in_a_row", name, {}, kMost);
  seen_ = io::get_size(counters, "norms_seen", name, {}, kMost);
  const auto found = counters.find("norms");
  if (found == counters.end() || !found->is_array() || found->size() != std::min<uint64_t>(seen_, kNorms))
    throw Error(fmt::format("{}: norms are not what norms_seen says", name));
  for (size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_number()) throw Error(fmt::format("{}: norms has something that is no number", name));
    norms_[i] = (*found)[i].get<double>();
  }
}

}  // namespace bertie
