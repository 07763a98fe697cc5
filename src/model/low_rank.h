#pragma once
// Low-rank changes of weights: beside NAME.weight, W (outputs, inputs), a checkpoint may have
// NAME.lora_A.weight, A (r, inputs), and NAME.lora_B.weight, B (outputs, r). The layer's weight is then
//
//   W + B·A
//
// These are the names that PEFT gives to LoRA's factors; what LoRA multiplies them by, α/r, is in them here.
// A task that changed a model a little is stored so in a small file beside the model's own weights; the
// models below bertie-mini are (hub/embedded.h).
#include <string>

#include "io/safetensors.h"

namespace bertie {

// The same tensors with the changes made, in F32; `where` names the checkpoint in errors. Throws Error where
// an A, a B or a W has no counterpart or another shape.
io::SafeTensors apply_low_rank(io::SafeTensors stored, const std::string& where);

}  // namespace bertie
