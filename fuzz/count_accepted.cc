// How many files of the given folders the reader accepts: a fuzzer whose corpus holds refused files only has
// not been past the front door. Linked with one fuzz function, whose result tells.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    size_t accepted = 0, all = 0;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      accepted += LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0;
      ++all;
    }
    std::printf("%s%zu of %zu", i > 1 ? ", " : "", accepted, all);
  }
  std::printf("\n");
}
