// Texts embedded once, kept in a folder, and searched in place.
//   example_search MODEL        for instance all-MiniLM-L6-v2
#include <bertie/bertie.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);
  const auto folder = std::filesystem::temp_directory_path() / "bertie-example-index";
  std::filesystem::remove_all(folder);

  bertie::VectorIndexWriter writer(folder, {.dimension = model.dimension(), .model = argv[1]});
  for (const char* text : {"He drove to the stadium.", "It's so sunny outside!", "The soup was cold."})
    writer.add(model.embed(text).values, text);
  writer.commit();

  const bertie::VectorIndex index(folder);
  const bertie::Embedding query = model.embed("The weather is lovely today.");
  for (const bertie::Ranked& r : index.search(query.values, 1))
    std::printf("%.4f  %s\n", r.score, std::string(index.text(r.index)).c_str());
  std::filesystem::remove_all(folder);
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
