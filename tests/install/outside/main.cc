// Uses the installed library as a stranger would: a bit of every public header.
#include <bertie/bertie.h>

#include <cmath>
#include <cstdio>
#include <cstring>

int main() {
  const float q[] = {.06f, .08f, .14f, .24f, .22f, .40f}, k[] = {.04f, .08f, .12f, .20f, .20f, .32f},
              v[] = {.03f, .03f, .11f, .11f, .19f, .19f};
  float out[6];
  bertie::attention({q, 3, 2}, {k, 3, 2}, {v, 3, 2}, {out, 3, 2});
  if (std::lround(out[0] * 1e4f) != 1105) return std::printf("attention gave %f\n", double(out[0])), 1;

  const auto tokenizer =
      bertie::Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nyou\nfound\nme\n");
  const bertie::Encoding e = tokenizer.encode("You found me");
  if (e.ids != std::vector<int32_t>{2, 5, 6, 7, 3})
    return std::printf("tokenizer gave %zu ids\n", e.size()), 1;

  const bertie::Model model =
      bertie::Model::random({.layers = 1, .hidden = 8, .heads = 2, .intermediate = 16, .vocabulary = 8});
  bertie::Run run(model);
  const std::vector<int32_t> offsets{0, int32_t(e.size())};
  if (run.forward({.ids = e.ids, .offsets = offsets}).last_hidden.rows() != 5)
    return std::printf("no hidden states\n"), 1;

  const bertie::Hub hub{.cache = "/no/such/cache"};
  if (!bertie::cached_models(hub).empty()) return std::printf("models in a cache that is not there\n"), 1;
  try {
    bertie::find_model("organization/model", hub);
    return std::printf("found a model that is not there\n"), 1;
  } catch (const bertie::Error& error) {
    if (!std::strstr(error.hint().c_str(), "`pull`")) return std::printf("no hint\n"), 1;
  }

  try {
    bertie::load("/no/such/model");
  } catch (const bertie::Error& error) {  // thrown inside the library, caught outside
    if (std::strstr(error.what(), "/no/such/model")) return std::printf("bertie works from outside\n"), 0;
  }
  return std::printf("no error for a missing model\n"), 1;
}
