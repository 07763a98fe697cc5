// What README begins with, to the letter; files_test.cc compares them.
#include <bertie/bertie.h>

#include <cstdio>

int main() try {
  auto model = bertie::load("all-MiniLM-L6-v2");  // a folder, or a name after bertie pull
  std::vector<float> v = model.embed("hello world").values;

  bertie::Attention a = model.attend("The bank deposited the money near the river bank.");
  std::printf("%zu numbers; attention of shape (%zu, %zu, %zu, %zu)\n", v.size(), a.layers, a.heads, a.n(),
              a.n());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
