#pragma once
// Some of a source's sequences, evenly spaced over all of it, so that an evaluation sees every part of the
// held-out data and not its first texts alone. The source plans its sequences once: an evaluation costs
// nothing but the sequences that it reads.
#include <memory>

#include "train/data/batch_source.h"

namespace bertie {

// `count` of the `all` sequences that come next in `source`; after the last one the first comes again.
// 0 < count <= all.
std::unique_ptr<BatchSource> make_subset_source(std::unique_ptr<BatchSource> source, size_t all,
                                                size_t count);

}  // namespace bertie
