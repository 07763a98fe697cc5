#pragma once
#include <cstdint>

namespace bertie {

// Each weight is dropped with this probability (rounded to 1/65536) and the others grow by 1/(1 − rate), so
// that the mean stays. Which are dropped is a function of (seed, number of the sequence in the batch, head,
// query, key): the backward pass, any number of threads and any repetition drop the same ones.
struct Dropout {
  float rate = 0;
  uint64_t seed = 0;
};

}  // namespace bertie
