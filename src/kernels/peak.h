#pragma once
// What the machine could do at most: fused multiply-adds on registers, nothing else. Benchmarks measure it
// in the same run as the work and report a fraction, because clocks and neighbors change.
#include "core/parallel.h"

namespace bertie::kernels {

// Floating-point operations a second that all threads of the team reach together in fp32, over about
// `seconds`, with the best instruction set here.
double fma_peak(Team& team, double seconds);
// The same of 8-bit integers: products of bytes and their sums in 32 bits, as the inner loop of int8.cc has
// them.
double int8_peak(Team& team, double seconds);

}  // namespace bertie::kernels
