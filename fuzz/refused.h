#pragma once
// What a fuzz function returns for a file that the reader refused. Tests count refusals, so there it is -1.
// libFuzzer takes -1 as "never keep this input", and forgets every step towards a file that is accepted: in
// the fuzzers it is 0, like the result for a good file.

#ifdef BERTIE_FUZZING
inline constexpr int kRefused = 0;
#else
inline constexpr int kRefused = -1;
#endif
