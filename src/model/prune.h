#pragma once
#include <memory>
#include <span>

#include "bertie/model.h"
#include "model/weights.h"

namespace bertie {

// The same weights without these heads. Tables stay where they are: the new weights hold on to the old ones.
std::shared_ptr<Weights> pruned_weights(const std::shared_ptr<const Weights>& from,
                                        std::span<const WhichHead> heads);

}  // namespace bertie
