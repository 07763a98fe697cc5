#pragma once
// Checks that all ranks of a run do the same: a rank that was started with other options or data, or whose
// model has drifted, is an Error. Every rank calls these at the same time; where they throw, they throw on
// all ranks, and on rank 0 first, which reports it.
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "train/ranks/collective.h"

namespace bertie {

// `mine` is an object that describes what this rank is about to do. Error that names the keys that differ,
// and the ranks.
void check_same_run(Collective& ranks, const nlohmann::ordered_json& mine);

// Compares the bits of a model and its optimizer. Error where those of a rank differ.
void check_same_numbers(Collective& ranks, std::initializer_list<std::span<const float>> mine);

// Rank 0's value on all ranks: of a clock, or of a sum whose order depends on the machine.
double value_of_rank_0(Collective& ranks, double mine);

}  // namespace bertie
