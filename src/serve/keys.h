#pragma once
// Bearer keys from a file: one a line; a line that begins with # is none. The file is read again when it
// changes.
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::serve {

class Keys {
 public:
  // Throws Error where the file cannot be read or has no key. An empty path: nobody needs one.
  explicit Keys(std::filesystem::path file);

  // Of a header "Bearer KEY". How long it takes does not tell how much of a key was right.
  bool allow(std::string_view authorization);
  void reload();  // Error leaves the old ones

 private:
  const std::filesystem::path file_;
  std::mutex mutex_;
  std::vector<std::string> sums_;  // SHA-256 of each
  std::filesystem::file_time_type changed_{};
  int64_t checked_ = 0;  // when the file was last looked at, in seconds
};

}  // namespace bertie::serve
