#pragma once
// Which of the processor's instruction sets the kernels use: the best one that is there, unless the
// environment's BERTIE_INSTRUCTIONS names a lesser one ("avx2", "sse4" or "scalar"), to compare them on one
// machine. 64-bit ARM has NEON alone.
namespace bertie::kernels {

const char* instruction_set();  // "AVX3" is AVX-512

// Does what the environment asks for; before the first kernel runs. An unknown name changes nothing.
bool limit_instruction_set();

}  // namespace bertie::kernels
