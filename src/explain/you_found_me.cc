// The worked example. X, Q, K and V of head 1 are the ones known from tutorials (d_k = 2); X has rank 2,
// which leaves room to choose W^Q, W^K and W^V with entries of one digit that give them exactly. Head 2 and
// W^O are made up to be easy to follow: in head 2 the first word looks ahead, the last one looks back and the
// one between looks at all alike.
#include <array>

#include "bertie/explain.h"

namespace bertie {

AttentionSteps explain_you_found_me(size_t head) {
  constexpr size_t kWords = 3, kSize = 4, kExampleHeads = 2;
  constexpr std::array<float, kWords* kSize> kX = {.1f, .2f, .3f, .4f,  .5f,  .6f,
                                                   .7f, .8f, .9f, 1.0f, 1.1f, 1.2f};
  // As checkpoints store them: a row for each column of the formula's matrix, two rows a head.
  constexpr std::array<float, kSize* kSize> kWq = {0,  .1f, 0, .1f, .1f, .2f, .1f, 0,  //
                                                   -3, 0,   1, 1,   -2,  -1,  0,   2};
  constexpr std::array<float, kSize* kSize> kWk = {.1f, 0, .1f, 0, 0, .1f, .2f, 0,  //
                                                   3,   0, 0,   0, 0, 2,   0,   0};
  constexpr std::array<float, kSize* kSize> kWv = {.1f, .1f, 0, 0, .1f, .1f, 0, 0,  //
                                                   1,   0,   0, 0, 0,   0,   0, 1};
  // Of the four numbers of the result two mix the heads and two are the mean of one head.
  constexpr std::array<float, kSize* kSize> kWo = {.5f, 0,   .5f, 0, 0, .5f, 0,   .5f,  //
                                                   .5f, .5f, 0,   0, 0, 0,   .5f, .5f};
  const auto matrix = [](const auto& values) {
    return Matrix<const float>(values.data(), values.size() / kSize, kSize);
  };
  AttentionSteps steps =
      explain(matrix(kX), {.wq = matrix(kWq), .wk = matrix(kWk), .wv = matrix(kWv), .wo = matrix(kWo)},
              kExampleHeads, head);
  steps.tokens = {"You", "found", "me"};
  return steps;
}

}  // namespace bertie
