#pragma once
// A server with a small model (random weights) for every task.
#include <fstream>
#include <iterator>

#include "bertie/serve.h"
#include "support/data.h"

namespace bertie::test {

inline std::string golden_task(const std::string& name) { return source_dir() / "tests/golden/tasks" / name; }

// The classifier with the labels of inference (NLI).
inline ModelFiles inference_model() {
  static std::map<std::string, std::string> texts = [] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(golden_task("text-classification-bert"))) {
      std::ifstream in(entry.path(), std::ios::binary);
      all[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    std::string& config = all["config.json"];
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>("negative", "contradiction"), {"positive", "entailment"}})
      for (size_t at; (at = config.find(from)) != config.npos;) config.replace(at, from.size(), to);
    return all;
  }();
  std::map<std::string, std::span<const std::byte>, std::less<>> files;
  for (const auto& [name, text] : texts) files[name] = std::as_bytes(std::span(text));
  return ModelFiles::in_memory(std::move(files), "nli");
}

inline ServeOptions no_models() {
  ServeOptions options;
  options.port = 0, options.threads = 2;
  return options;
}

inline ServeOptions one_model(const std::string& name = "sentence-similarity-bert") {
  ServeOptions options = no_models();
  options.models.push_back({name, golden_task(name)});
  return options;
}

inline ServeOptions small_models() {
  ServeOptions options = no_models();
  for (const char* name :
       {"sentence-similarity-bert", "fill-mask-bert", "text-classification-bert", "token-classification-bert",
        "question-answering-bert", "next-sentence-bert", "text-generation-gpt2"})
    options.models.push_back({name, golden_task(name)});
  options.models.push_back({"nli", inference_model()});
  options.runs = {{"run", source_dir() / "tests/golden/run"}};
  return options;
}

}  // namespace bertie::test
