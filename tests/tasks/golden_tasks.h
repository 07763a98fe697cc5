#pragma once
// The small models of tests/golden/tasks and what transformers' pipelines answer with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bertie/text_model.h"
#include "support/data.h"

namespace bertie::test {

inline std::filesystem::path golden_task(const std::string& name) {
  return source_dir() / "tests/golden/tasks" / name;
}

inline std::vector<std::string> golden_tasks() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_task("")))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline nlohmann::json golden_cases(const std::string& name) {
  std::ifstream in(golden_task(name) / "cases.json");
  return nlohmann::json::parse(in)["cases"];
}

}  // namespace bertie::test
