#pragma once
// Runs build/bertie as its users do, and small models for it to work on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/data.h"

namespace bertie::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline const std::string kProgram = BERTIE_BINARY_DIR "/bertie";

inline std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_all(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "bertie_cli.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

struct Result {
  int code = -1;  // the exit code; 1000 + number for a signal
  std::string out, err;
};

struct How {
  std::string input = {};  // of a terminal: what was typed ahead
  std::map<std::string, std::string> environment = {};
  std::string output_to = {};  // this path in place of a file that the test reads back
  bool terminal = false;       // standard input, output and error are one terminal; all in `out`
  std::function<void(pid_t)> meanwhile = {};  // called while it runs
};

inline Result run(const std::vector<std::string>& arguments, const How& how = {}) {
  TemporaryFolder folder;
  write_all(folder / "in", how.input);
  const std::string in = folder / "in", err = folder / "err";
  const std::string out = how.output_to.empty() ? (folder / "out").string() : how.output_to;
  int master = -1, terminal = -1;
  winsize size{.ws_row = 50, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  if (how.terminal && openpty(&master, &terminal, nullptr, nullptr, &size) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    for (const char* name : {"BERTIE_MODEL", "NO_COLOR", "COLUMNS", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT",
                             "HF_TOKEN", "HF_HUB_OFFLINE"})
      unsetenv(name);
    setenv("TERM", "xterm-256color", 1);
    for (const auto& [name, value] : how.environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(how.terminal ? terminal : open(in.c_str(), O_RDONLY), 0);
    dup2(how.terminal ? terminal : open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    dup2(how.terminal ? terminal : open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    std::vector<char*> argv{const_cast<char*>(kProgram.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(kProgram.c_str(), argv.data());
    _exit(127);
  }
  Result result;
  if (how.meanwhile) how.meanwhile(child);
  if (how.terminal) {
    if (write(master, how.input.data(), how.input.size()) < 0) return {};
    close(terminal);
    char buffer[4096];
    for (ssize_t count; (count = read(master, buffer, sizeof buffer)) > 0;)
      result.out.append(buffer, size_t(count));
    close(master);
  }
  int status = 0;
  waitpid(child, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  if (!how.terminal) {
    if (how.output_to.empty()) result.out = read_all(out);
    result.err = read_all(err);
  }
  return result;
}

// What the shell makes of a command line; $BERTIE is the program.
inline Result run_shell(const std::string& command) {
  TemporaryFolder folder;
  const std::string out = folder / "out", err = folder / "err";
  setenv("BERTIE", kProgram.c_str(), 1);
  const int status = std::system(("{ " + command + "\n} >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(out), read_all(err)};
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

inline const char* const kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nyou\nfound\nme\nthe\nriver\nbank\nun\n##believ\n##able\n.\n,\n!\n-"
    "\n\xE6\x97\xA5\nYou\n";

// A small BERT (2 layers, 2 heads, 64 hidden, 33 positions) with a vocabulary of twenty tokens.
class ModelFolder : public TemporaryFolder {
 public:
  ModelFolder() {
    const fs::path golden = source_dir() / "tests/golden/models/plain";
    for (const char* name : {"config.json", "model.safetensors"}) fs::copy_file(golden / name, *this / name);
    write_all(*this / "vocab.txt", kVocabulary);
  }
  std::string name() const { return path().string(); }
};

struct Npy {
  std::vector<size_t> shape;
  std::vector<float> values;
};

inline Npy read_npy(const fs::path& path) {
  const std::string bytes = read_all(path);
  Npy npy;
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t length = 10 + uint8_t(bytes[8]) + 256 * uint8_t(bytes[9]);
  const std::string header = bytes.substr(10, length - 10);
  EXPECT_NE(header.find("'descr': '<f4', 'fortran_order': False"), header.npos) << header;
  std::istringstream shape(header.substr(header.find('(') + 1));
  for (size_t n; shape >> n; shape.ignore(1)) npy.shape.push_back(n);
  npy.values.resize((bytes.size() - length) / sizeof(float));
  if (!npy.values.empty()) std::memcpy(npy.values.data(), bytes.data() + length, bytes.size() - length);
  return npy;
}

}  // namespace bertie::test
