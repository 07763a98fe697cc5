#pragma once
// Some of a source's sequences, spread evenly over all of it: a look at held-out data that is one at every
// part of it, not at its first texts alone. The source plans its sequences once, so that a look costs nothing
// but the sequences that it reads.
#include <memory>

#include "train/data/batch_source.h"

namespace bertie {

// `count` of the `all` sequences that come next in `source`; after the last one the first comes again.
// 0 < count <= all.
std::unique_ptr<BatchSource> make_subset_source(std::unique_ptr<BatchSource> source, size_t all,
                                                 size_t count);

}  // namespace bertie
