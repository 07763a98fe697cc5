#pragma once
// Fresh weights with which heads begin by looking at the words nearby.
//
// From random weights a small encoder learns how often each word comes, and then stays there for long: that a
// neighbour says more than any other word it finds out by chance. Here it need not. The first d numbers of a
// token's vector, d being a head's width, are its place p: (sin pω, cos pω) for d/2 frequencies ω; words and
// types begin with zeros there. A head's keys read them as they are, its queries turned by ω·offset, so that
// their product is largest between p and p + offset. Random numbers stay on top, all of it learns, and the
// result is a BERT like any other.
#include <vector>

#include "model/tensors.h"
#include "model/trunk.h"

namespace bertie {

// Of parameters that are fresh already. Error where there is no place for it: where positions are not added
// to words at the layers' width, behind a norm.
void look_nearby(const std::vector<TensorSpec>& tensors, const TrunkWeights& trunk, float deviation);

}  // namespace bertie
