#pragma once
// The mixed-length batch of `bertie bench encode`: 32 lengths in tokens, [CLS] and [SEP] included, as the
// sentences of SST-2's development set (GLUE; 872 sentences of 4 to 55 tokens, mean 25.2) have them with
// bert-base-uncased's vocabulary. They are the quantiles (i + 0.5) / 32, shuffled once: 805 tokens, or 1,568
// when padded to the longest.

namespace bertie::cli {

inline constexpr int kSst2Lengths[32] = {25, 34, 27, 49, 41, 28, 8,  13, 20, 17, 23, 26, 30, 39, 24, 21,
                                         22, 37, 10, 33, 16, 27, 18, 19, 29, 32, 14, 36, 20, 44, 11, 12};

}  // namespace bertie::cli
