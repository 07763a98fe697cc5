// Bertie's encoder behind C's calling convention, for encode.py, which measures it as it measures its peers:
// called from Python, on ids that are in memory. encode.py compiles it against libbertie.
#include <bertie/bertie.h>

#include <cstdint>
#include <cstdio>
#include <span>

namespace {

struct Encoder {
  bertie::Model model;
  bertie::Run run;
};

}  // namespace

extern "C" {

// Null, and a message on standard error, where the folder cannot be loaded.
Encoder* bertie_open(const char* folder, int threads) try {
  auto model = bertie::Model::load(folder);
  return new Encoder{model, bertie::Run(model, threads)};
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return nullptr;
}

// The last hidden states, (offsets[sequences], C), in the encoder's memory until its next call; null on an
// error.
const float* bertie_encode(Encoder* encoder, const int32_t* ids, const int32_t* offsets, int sequences) try {
  const auto tokens = static_cast<size_t>(offsets[sequences]);
  const bertie::Batch batch{.ids = {ids, tokens}, .offsets = {offsets, static_cast<size_t>(sequences) + 1}};
  return encoder->run.forward(batch).last_hidden.data();
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return nullptr;
}
}
