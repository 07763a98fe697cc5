#pragma once
// A server with a small model (random weights) for every task.
#include "bertie/serve.h"
#include "support/data.h"

namespace bertie::test {

inline std::string golden_task(const std::string& name) { return source_dir() / "tests/golden/tasks" / name; }

inline ServeOptions small_models() {
  ServeOptions options;
  options.port = 0, options.threads = 2;
  for (const char* name : {"sentence-similarity-bert", "fill-mask-bert", "text-classification-bert",
                           "token-classification-bert", "question-answering-bert", "next-sentence-bert",
                           "text-generation-gpt2"})
    options.models.push_back({name, golden_task(name)});
  return options;
}

inline ServeOptions one_model(const std::string& name = "sentence-similarity-bert") {
  ServeOptions options;
  options.port = 0, options.threads = 2;
  options.models.push_back({name, golden_task(name)});
  return options;
}

}  // namespace bertie::test
