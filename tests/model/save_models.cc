// Loads every golden model and saves it again, for tools/check_saved_models.py to load with transformers.
//   save_models tests/golden/families TO
#include <cstdio>

#include "bertie/error.h"
#include "bertie/model.h"
#include "bertie/transformer.h"

int main(int argc, char** argv) try {
  namespace fs = std::filesystem;
  if (argc != 3) return std::fprintf(stderr, "usage: %s FROM TO\n", argv[0]), 2;
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    const fs::path to = argv[2] / entry.path().filename();
    if (bertie::TransformerConfig::describes(entry.path()))
      bertie::Transformer::load(entry.path()).save(to);
    else
      bertie::Model::load(entry.path()).save(to);
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
