// The BiLSTM: the LSTM against its formulas in double, every gradient against differences of the loss, and a
// batch that is learned by heart.
#include "train/baselines/bilstm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "kernels/cross_entropy.h"
#include "kernels/optimize.h"
#include "train/baselines/lstm.h"

namespace bertie::baseline {
namespace {

using Numbers = std::vector<int32_t>;

WordBatch batch_from(const std::vector<Numbers>& sequences) {
  std::vector<std::span<const int32_t>> views(sequences.begin(), sequences.end());
  return make_word_batch(views);
}

std::vector<float> random_numbers(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = random.normal();
  return out;
}

TEST(WordBatch, LiesStepByStepTheLongestFirst) {
  const WordBatch batch = batch_from({{1, 2}, {}, {3, 4, 5}, {6, 7}});
  EXPECT_EQ(batch.words, (Numbers{3, 1, 6, 4, 2, 7, 5}));
  EXPECT_EQ(batch.steps, (std::vector<size_t>{0, 3, 6, 7}));
  EXPECT_EQ(batch.offsets, (Numbers{0, 2, 2, 5, 7}));
  Numbers in_order;
  for (const int32_t row : batch.rows) in_order.push_back(batch.words[size_t(row)]);
  EXPECT_EQ(in_order, (Numbers{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(batch_from({}).words.empty());
}

TEST(WordBatch, BatchesHoldEverySequenceOnceAndLikeLengths) {
  std::vector<size_t> lengths(1000);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i % 50;
  const auto batches = batches_of_similar_length(lengths, 16, 1, 0);
  std::vector<size_t> seen(lengths.size());
  size_t apart = 0;
  for (const auto& batch : batches) {
    EXPECT_LE(batch.size(), 16u);
    for (const size_t i : batch) ++seen[i];
    apart += lengths[batch.back()] - lengths[batch.front()];
  }
  EXPECT_EQ(seen, std::vector<size_t>(lengths.size(), 1));
  EXPECT_LE(apart, 5 * batches.size());
  EXPECT_EQ(batches, batches_of_similar_length(lengths, 16, 1, 0));
  EXPECT_NE(batches, batches_of_similar_length(lengths, 16, 1, 1));
}

// One sequence, word by word, in double.
std::vector<std::vector<double>> reference_states(const std::vector<std::vector<double>>& x,
                                                  const Lstm& lstm) {
  const size_t hidden = lstm.wh.cols();
  std::vector<double> h(hidden), c(hidden);
  std::vector<std::vector<double>> out;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (const std::vector<double>& word : x) {
    std::vector<double> z(lstm.bias.begin(), lstm.bias.end());
    for (size_t j = 0; j < z.size(); ++j) {
      for (size_t k = 0; k < word.size(); ++k) z[j] += double(lstm.wx(j, k)) * word[k];
      for (size_t k = 0; k < hidden; ++k) z[j] += double(lstm.wh(j, k)) * h[k];
    }
    for (size_t j = 0; j < hidden; ++j) {
      c[j] = sigmoid(z[hidden + j]) * c[j] + sigmoid(z[j]) * std::tanh(z[3 * hidden + j]);
      h[j] = sigmoid(z[2 * hidden + j]) * std::tanh(c[j]);
    }
    out.push_back(h);
  }
  return out;
}

TEST(Lstm, IsItsFormulasInBothDirections) {
  constexpr size_t kWidth = 5, kHidden = 7;
  const std::vector<size_t> lengths{4, 0, 1, 6, 4};
  std::vector<Numbers> sequences;
  int32_t next = 0;
  for (const size_t length : lengths) {
    Numbers& words = sequences.emplace_back();
    for (size_t i = 0; i < length; ++i) words.push_back(next++);
  }
  const WordBatch batch = batch_from(sequences);
  std::vector<float> x(batch.words.size() * kWidth);
  const std::vector<float> table = random_numbers(x.size(), 1);
  for (size_t r = 0; r < batch.words.size(); ++r)
    std::copy_n(table.data() + size_t(batch.words[r]) * kWidth, kWidth, x.data() + r * kWidth);
  const std::vector<float> wx = random_numbers(4 * kHidden * kWidth, 2),
                           wh = random_numbers(4 * kHidden * kHidden, 3),
                           bias = random_numbers(4 * kHidden, 4);
  const Lstm lstm{{wx.data(), 4 * kHidden, kWidth}, {wh.data(), 4 * kHidden, kHidden}, bias};
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    std::vector<float> h(batch.words.size() * kHidden);
    LstmMemory memory;
    lstm_forward({x.data(), batch.words.size(), kWidth}, batch.steps, direction, lstm,
                 {h.data(), batch.words.size(), kHidden}, memory);
    for (size_t s = 0; s < sequences.size(); ++s) {
      std::vector<std::vector<double>> words;
      for (const int32_t word : sequences[s])
        words.emplace_back(table.begin() + word * int32_t(kWidth),
                           table.begin() + (word + 1) * int32_t(kWidth));
      if (direction == Direction::kBackward) std::reverse(words.begin(), words.end());
      auto expected = reference_states(words, lstm);
      if (direction == Direction::kBackward) std::reverse(expected.begin(), expected.end());
      for (size_t t = 0; t < expected.size(); ++t)
        for (size_t j = 0; j < kHidden; ++j)
          EXPECT_NEAR(h[size_t(batch.rows[size_t(batch.offsets[s]) + t]) * kHidden + j], expected[t][j],
                      1e-5);
    }
  }
}

// Σ logits∘c, which is linear in the logits: c is its gradient.
struct LinearLossOfLogits {
  BiLstm& network;
  WordBatch batch;
  Dropout dropout;
  std::vector<float> c;

  double value() {
    const Matrix<float> logits = network.forward(batch, dropout);
    double sum = 0;
    for (size_t i = 0; i < logits.rows() * logits.cols(); ++i) sum += double(logits.data()[i]) * c[i];
    return sum;
  }
};

class BiLstmGradients : public testing::TestWithParam<Reads> {};

TEST_P(BiLstmGradients, AreDifferencesOfTheLoss) {
  const BiLstmShape shape{
      .reads = GetParam(), .words = 9, .outputs = 3, .width = 6, .hidden = 5, .attention = 4};
  BiLstm network(shape, 1, 2);
  Random random(2);
  for (float& v : network.values()) v += 0.3f * random.normal();
  for (const float rate : {0.0f, 0.3f}) {
    LinearLossOfLogits loss{
        network, batch_from({{1, 2, 3, 1}, {4}, {5, 6}, {}, {7, 8, 0, 2, 3}, {6, 1}}), {rate, 5}, {}};
    const Matrix<float> logits = network.forward(loss.batch, loss.dropout);
    loss.c = random_numbers(logits.rows() * logits.cols(), 3);
    std::ranges::fill(network.gradients(), 0.0f);
    network.backward(loss.batch, {loss.c.data(), logits.rows(), logits.cols()}, loss.dropout);
    for (const BiLstm::Tensor& tensor : network.tensors()) {
      const size_t count = tensor.values.rows() * tensor.values.cols();
      const std::vector<float> gradient(tensor.gradient.data(), tensor.gradient.data() + count);
      const std::vector<float> before(tensor.values.data(), tensor.values.data() + count);
      double size = 0;
      for (const float g : gradient) size += double(g) * g;
      EXPECT_GT(size, 0) << tensor.name;
      // Along the gradient, which shows its size, and along random signs, which show what is missing.
      for (const bool signs : {false, true}) {
        std::vector<float> v(count);
        double expected = 0;
        for (size_t i = 0; i < count; ++i) {
          v[i] = signs ? (random.below(2) ? 1.0f : -1.0f) / std::sqrt(float(count))
                       : float(gradient[i] / std::sqrt(size));
          expected += double(v[i]) * gradient[i];
        }
        const auto loss_at = [&](float step) {
          for (size_t i = 0; i < count; ++i) tensor.values.data()[i] = before[i] + step * v[i];
          return loss.value();
        };
        const auto slope = [&](float step) { return (loss_at(step) - loss_at(-step)) / (2 * double(step)); };
        const double wide = slope(8e-3f), narrow = slope(4e-3f), measured = (4 * narrow - wide) / 3;
        EXPECT_NEAR(measured, expected, 2e-3 * std::abs(expected) + 5e-4) << tensor.name << ", " << rate;
        std::ranges::copy(before, tensor.values.data());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BiLstmGradients, testing::Values(Reads::kWords, Reads::kTexts, Reads::kPairs));

TEST(BiLstm, LearnsABatchByHeart) {
  // What a text is depends on the order of its words alone.
  const std::vector<Numbers> sequences{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1, 1}, {1}, {2}};
  const Numbers targets{0, 1, 2, 0, 1, 2};
  const WordBatch batch = batch_from(sequences);
  BiLstm network({.words = 4, .outputs = 3, .width = 16, .hidden = 16, .attention = 8}, 1, 1);
  std::vector<float> m(network.values().size()), v(m.size());
  double loss = 0;
  for (int step = 1; step <= 150; ++step) {
    const Matrix<float> logits = network.forward(batch);
    loss = kernels::cross_entropy(logits, targets, 1.0f / 6, true, network.team()).loss / 6;
    network.backward(batch, logits);
    kernels::adam_update({.rate = 0.02,
                          .correction1 = 1 / (1 - std::pow(0.9, step)),
                          .correction2 = 1 / (1 - std::pow(0.999, step))},
                         network.values(), network.gradients(), m, v, network.team());
  }
  EXPECT_LT(loss, 0.01);
}

TEST(BiLstm, IsTheSameBitsInAnyTeam) {
  const WordBatch batch = batch_from({{1, 2, 3}, {4, 0}, {3, 2, 1, 4}});
  const auto gradients_with = [&](int threads) {
    BiLstm network({.words = 5, .outputs = 2}, 3, threads);
    const Matrix<float> logits = network.forward(batch, {0.2f, 9});
    network.backward(batch, logits, {0.2f, 9});
    return std::vector<float>(network.gradients().begin(), network.gradients().end());
  };
  EXPECT_EQ(gradients_with(1), gradients_with(3));
}

}  // namespace
}  // namespace bertie::baseline
