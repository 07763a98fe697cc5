#pragma once
// What all ranks of a run must have in common, looked at so that a rank that was started otherwise is told
// and not trained with. Every rank calls these at the same time; where they throw, they throw on all ranks,
// and rank 0 first, which so has the word.
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "train/ranks/collective.h"

namespace bertie {

// An object that says what a rank is about to do. Error with the names of what is not the same, and whose.
void check_same_run(Collective& ranks, const nlohmann::ordered_json& mine);

// The bits of a model and its optimiser. Error where those of a rank are others.
void check_same_numbers(Collective& ranks, std::initializer_list<std::span<const float>> mine);

// Rank 0's number for all: of a clock, or of a sum whose order depends on the machine.
double value_of_rank_0(Collective& ranks, double mine);

}  // namespace bertie
