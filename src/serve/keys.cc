#include "serve/keys.h"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <span>

#include "bertie/error.h"
#include "io/sha.h"

namespace bertie::serve {
namespace {

std::string sum_of(std::string_view key) {
  io::Sha256 sha;
  sha.add(std::as_bytes(std::span(key)));
  return sha.hex();
}

bool equal(std::string_view a, std::string_view b) {  // of the same size
  unsigned char differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= (unsigned char)(a[i] ^ b[i]);
  return differ == 0;
}

}  // namespace

Keys::Keys(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty()) reload();
}

void Keys::reload() {
  if (file_.empty()) return;
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file_, error);
  std::ifstream in(file_);
  std::vector<std::string> sums;
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty() && line[0] != '#') sums.push_back(sum_of(line));
  }
  if (error || in.bad() || sums.empty())
    throw Error(fmt::format("{}: {}", file_.string(), error ? "cannot be read" : "there is no key in it"),
                "a file with a key a line", "keys_file");
  std::lock_guard lock(mutex_);
  sums_ = std::move(sums), changed_ = changed;
}

bool Keys::allow(std::string_view authorization) {
  if (file_.empty()) return true;
  const auto now = int64_t(std::time(nullptr));
  bool look;
  std::filesystem::file_time_type known;
  {
    std::lock_guard lock(mutex_);
    look = now != checked_;
    checked_ = now, known = changed_;
  }
  if (look) {
    std::error_code error;
    const auto changed = std::filesystem::last_write_time(file_, error);
    if (!error && changed != known) try {
        reload();
      } catch (const Error&) {  // half written, perhaps: the old keys hold
      }
  }
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() <= kBearer.size()) return false;
  for (size_t i = 0; i < kBearer.size(); ++i)
    if ((authorization[i] | 0x20) != kBearer[i] && authorization[i] != kBearer[i]) return false;
  const std::string sum = sum_of(authorization.substr(kBearer.size()));
  bool found = false;
  std::lock_guard lock(mutex_);
  for (const std::string& one : sums_) found |= equal(sum, one);
  return found;
}

}  // namespace bertie::serve
