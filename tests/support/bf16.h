#pragma once
// VDPBF16PS for tests, also where the processor runs it without showing it: some virtual machines do that.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/bf16.h"

namespace bertie::test {

// A child tries.
inline bool bf16_instruction_runs() {
#if defined(__x86_64__)
  if (kernels::has_bf16_instruction()) return true;
  if (!__builtin_cpu_supports("avx512f")) return false;
  const pid_t child = fork();
  if (child == 0) {
    alignas(4) const uint16_t a[2] = {}, b[2 * kernels::kPanel] = {};
    float out[kernels::kPanel];
    kernels::bf16_tile_native(1, {.a = a, .a_stride = 2, .b = b, .pairs = 1, .out = out, .out_stride = 32});
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
#else
  return false;
#endif
}

// Products take the instruction, if it runs, while this lives.
class Bf16Instruction {
 public:
  Bf16Instruction() : runs_(bf16_instruction_runs()) {
    if (runs_) setenv("BERTIE_BF16_INSTRUCTION", "1", 1);
  }
  ~Bf16Instruction() { unsetenv("BERTIE_BF16_INSTRUCTION"); }
  Bf16Instruction(const Bf16Instruction&) = delete;
  bool runs() const { return runs_; }

 private:
  bool runs_;
};

}  // namespace bertie::test
