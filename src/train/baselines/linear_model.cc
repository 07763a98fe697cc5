#include "train/baselines/linear_model.h"

#include <algorithm>
#include <cmath>

#include "train/baselines/lbfgs.h"

namespace bertie::baseline {
namespace {

constexpr size_t kRowGroups = 8;  // sums over rows are added up group by group, whatever the team
constexpr size_t kIterations = 300;

double sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }

// z becomes its softmax; gives log Σ e^z.
double softmax(std::span<double> z) {
  const double most = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (double& v : z) sum += v = std::exp(v - most);
  for (double& v : z) v /= sum;
  return most + std::log(sum);
}

// z = x·W + b for one row.
void outputs_of(const FeatureRows& x, size_t row, std::span<const double> numbers, std::span<double> z) {
  const size_t outputs = z.size();
  if (outputs == 1) {  // the usual case, three times as fast by itself
    double sum = numbers.back();
    x.for_each(row, [&](size_t column, float value) { sum += double(value) * numbers[column]; });
    z[0] = sum;
    return;
  }
  std::copy_n(numbers.end() - ptrdiff_t(outputs), outputs, z.begin());
  x.for_each(row, [&](size_t column, float value) {
    const double* w = numbers.data() + column * outputs;
    for (size_t k = 0; k < outputs; ++k) z[k] += double(value) * w[k];
  });
}

// gradient += x·dz for one row.
void add_gradient(const FeatureRows& x, size_t row, std::span<const double> dz, std::span<double> gradient) {
  const size_t outputs = dz.size();
  double* to = gradient.data();
  if (outputs == 1) {
    const double d = dz[0];
    x.for_each(row, [to, d](size_t column, float value) { to[column] += double(value) * d; });
  } else {
    x.for_each(row, [&](size_t column, float value) {
      for (size_t k = 0; k < outputs; ++k) to[column * outputs + k] += double(value) * dz[k];
    });
  }
  for (size_t k = 0; k < outputs; ++k) to[x.columns * outputs + k] += dz[k];
}

// The loss; z becomes its gradient.
double loss_and_gradient(LinearLoss loss, double y, std::span<double> z) {
  if (loss == LinearLoss::kSquared) {
    z[0] -= y;
    return z[0] * z[0] / 2;
  }
  if (loss == LinearLoss::kSigmoid) {
    const double value = std::max(z[0], 0.0) + std::log1p(std::exp(-std::abs(z[0]))) - y * z[0];
    z[0] = sigmoid(z[0]) - y;
    return value;
  }
  const double mine = z[size_t(y)], log_sum = softmax(z);
  z[size_t(y)] -= 1;
  return log_sum - mine;
}

// The mean over rows of what fit minimizes, and its gradient.
class MeanLoss {
 public:
  MeanLoss(const FeatureRows& x, std::span<const double> y, LinearLoss loss, size_t outputs, Team& team)
      : x_(x), y_(y), loss_(loss), outputs_(outputs), team_(team), sums_(kRowGroups) {}

  double operator()(std::span<const double> numbers, std::span<double> gradient) {
    team_.parallel_for(kRowGroups, [&](size_t group) {
      std::vector<double>& sum = gradients_[group];
      sum.assign(numbers.size(), 0);
      sums_[group] = 0;
      std::vector<double> z(outputs_);
      for (size_t r = group * x_.rows / kRowGroups; r < (group + 1) * x_.rows / kRowGroups; ++r) {
        outputs_of(x_, r, numbers, z);
        sums_[group] += loss_and_gradient(loss_, y_[r], z);
        add_gradient(x_, r, z, sum);
      }
    });
    const double scale = 1 / double(std::max<size_t>(x_.rows, 1));
    const size_t weights = numbers.size() - outputs_;  // b is free
    double value = 0;
    for (const double sum : sums_) value += sum;
    for (size_t i = 0; i < numbers.size(); ++i) {
      double sum = 0;
      for (const std::vector<double>& part : gradients_) sum += part[i];
      if (i < weights) sum += numbers[i], value += numbers[i] * numbers[i] / 2;
      gradient[i] = sum * scale;
    }
    return value * scale;
  }

 private:
  const FeatureRows& x_;
  std::span<const double> y_;
  LinearLoss loss_;
  size_t outputs_;
  Team& team_;
  std::vector<double> sums_;
  std::vector<double> gradients_[kRowGroups];
};

}  // namespace

std::vector<double> LinearModel::apply(const FeatureRows& x) const {
  std::vector<double> z(x.rows * outputs);
  for (size_t r = 0; r < x.rows; ++r) outputs_of(x, r, numbers, std::span(z).subspan(r * outputs, outputs));
  return z;
}

LinearModel fit(const FeatureRows& x, std::span<const double> y, LinearLoss loss, size_t outputs, Team& team,
                const FitOptions& options) {
  LinearModel model{.outputs = outputs};
  model.numbers.resize((x.columns + 1) * outputs);
  MeanLoss mean_loss(x, y, loss, outputs, team);
  MinimizeOptions how{.iterations = kIterations, .tolerance = options.tolerance};
  if (options.progress)
    how.after_iteration = [&](size_t i) { options.progress(double(i) / double(kIterations)); };
  minimize([&](std::span<const double> at, std::span<double> g) { return mean_loss(at, g); }, model.numbers,
           how);
  return model;
}

Predictions fit_and_predict(const FeatureRows& x, const Dataset& train, const FeatureRows& dev_x, Team& team,
                            const FitOptions& options) {
  const bool number = train.problem == Problem::kRegression, several = train.problem == Problem::kMultiLabel;
  const size_t labels = number ? 1 : train.labels.size();
  Predictions out{.columns = labels};
  out.scores.resize(dev_x.rows * labels);
  std::vector<double> y(x.rows);
  if (several) {
    for (size_t k = 0; k < labels; ++k) {
      for (size_t r = 0; r < x.rows; ++r)
        y[r] = double(std::ranges::count(train.texts[r].labels, int32_t(k)) > 0);
      FitOptions one = options;
      if (options.progress)
        one.progress = [&](double part) { options.progress((double(k) + part) / double(labels)); };
      const std::vector<double> z = fit(x, y, LinearLoss::kSigmoid, 1, team, one).apply(dev_x);
      for (size_t r = 0; r < dev_x.rows; ++r) out.scores[r * labels + k] = float(sigmoid(z[r]));
    }
    return out;
  }
  for (size_t r = 0; r < x.rows; ++r)
    y[r] = number ? train.texts[r].value : double(train.texts[r].labels.at(0));
  const bool two = !number && labels == 2;
  const LinearLoss loss = number ? LinearLoss::kSquared : two ? LinearLoss::kSigmoid : LinearLoss::kSoftmax;
  std::vector<double> z = fit(x, y, loss, two ? 1 : labels, team, options).apply(dev_x);
  for (size_t r = 0; r < dev_x.rows; ++r) {
    float* row = out.scores.data() + r * labels;
    if (two) {
      row[0] = float(sigmoid(-z[r])), row[1] = float(sigmoid(z[r]));
    } else {
      const std::span<double> mine = std::span(z).subspan(r * labels, labels);
      if (!number) softmax(mine);
      std::copy(mine.begin(), mine.end(), row);
    }
  }
  return out;
}

}  // namespace bertie::baseline
