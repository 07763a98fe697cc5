#pragma once
// What a model loses without single heads.
#include <cstdint>
#include <functional>
#include <span>

#include "bertie/heads.h"
#include "explain/head_texts.h"

namespace bertie {

// How many of the texts, from the first on, have so many tokens.
size_t texts_for_ablation(std::span<const HeadText> texts, size_t tokens);

// The masked language model's loss on these, with all heads and without each; `step` is told after each time
// that they were read.
HeadAblation ablate_heads(const TextModel& model, std::span<const HeadText> texts, uint64_t seed,
                          const std::function<void()>& step);

}  // namespace bertie
