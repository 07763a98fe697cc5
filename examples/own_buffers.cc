// Attention on your own buffers: "You found me", the worked example with d_k = 2.
#include <bertie/attention.h>

#include <cstdio>

int main() {
  const char* words[] = {"You", "found", "me"};
  const float q[] = {.06f, .08f, .14f, .24f, .22f, .40f};
  const float k[] = {.04f, .08f, .12f, .20f, .20f, .32f};
  const float v[] = {.03f, .03f, .11f, .11f, .19f, .19f};
  float out[6], weights[9];

  // softmax(Q·Kᵀ/√2)·V; rows are words, columns are d_k.
  bertie::attention({q, 3, 2}, {k, 3, 2}, {v, 3, 2}, {out, 3, 2}, weights);

  for (int i = 0; i < 3; ++i)
    std::printf("%-6s looks at You %.4f, found %.4f, me %.4f  and becomes [%.4f, %.4f]\n", words[i],
                weights[3 * i], weights[3 * i + 1], weights[3 * i + 2], out[2 * i], out[2 * i + 1]);
}
