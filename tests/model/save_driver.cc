// save_driver FROM TO: loads every model of the folder FROM and saves it under the same name in TO, for
// tools/check_saved_models.py to load with transformers. Encoder-decoders are left out.
#include <cstdio>
#include <exception>

#include "bertie/model.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc != 3) return std::fprintf(stderr, "usage: save_driver FROM TO\n"), 2;
  try {
    for (const auto& entry : fs::directory_iterator(argv[1])) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_directory() || name.starts_with("marian")) continue;
      bertie::Model::load(entry.path()).save(fs::path(argv[2]) / name);
    }
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
