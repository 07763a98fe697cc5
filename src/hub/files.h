#pragma once
// Which of a repository's files Bertie reads, and why it would not read some repositories at all.
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace bertie::hub {

// A model's files, on the hub or in a folder.
struct Repository {
  std::string name;
  std::set<std::string> files;                          // relative, with /
  std::function<std::string(const std::string&)> read;  // a small file's content
};

// Configuration, tokenizer and weights, those of the folders that modules.json names included. Throws Error
// where there are no safetensors: it says what there is instead and how to convert that.
std::vector<std::string> wanted_files(const Repository& repository);

// A relative path that stays where it is put: no "..", no empty part, nothing unprintable.
bool is_safe_path(const std::string& path);

}  // namespace bertie::hub
