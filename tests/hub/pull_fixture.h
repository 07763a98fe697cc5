#pragma once
// A hub on this machine with one small model, and a cache of the test's own to pull it into.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "bertie/error.h"
#include "bertie/hub.h"
#include "hub/cache.h"
#include "support/hub_server.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"

namespace bertie::test {

namespace fs = std::filesystem;

inline const std::string kModel = "org/tiny";
inline const std::string kConfig = R"({"model_type": "bert"})";

inline std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Weights of so many bytes, the header included.
inline std::string some_bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t x = 1;
  for (char& c : bytes) c = char((x = x * 1664525 + 1013904223) >> 24);
  while (true) {  // how long the header is depends on the size
    const std::string file = file_of_bytes(bytes);
    if (file.size() <= size) return file;
    bytes.resize(bytes.size() - (file.size() - size));
  }
}

class HubPull : public ::testing::Test {
 protected:
  HubPull() {
    server_.add(kModel, "config.json", kConfig);
    server_.add(kModel, "vocab.txt", "[PAD]\n[UNK]\n");
    server_.add(kModel, "README.md", "not wanted");
    server_.add(kModel, "pytorch_model.bin", "not wanted either");
    server_.add(kModel, "model.safetensors", weights_);
    hub_.endpoint = server_.url();
    hub_.cache = folder_.path() / "hub";
    hub_.timeout = 1;
    options_.wait = [this](double seconds) { waits_.push_back(seconds); };
  }

  PullResult run(const std::string& name = kModel) { return pull(name, options_, hub_); }

  // The pull fails, saying this and hinting that; and nothing that was not complete can be found afterwards.
  void expect_failure(const std::string& what, const std::string& hint = "",
                      const std::string& name = kModel) {
    try {
      run(name);
      ADD_FAILURE() << "it went well; expected: " << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
    }
    EXPECT_THROW(find_model(kModel, hub_), Error);
  }
  fs::path repository() const { return hub::repository_folder(hub_, kModel); }
  fs::path blob(const std::string& bytes) const { return repository() / "blobs" / HubServer::sha256(bytes); }
  fs::path incomplete() const { return blob(weights_).string() + ".incomplete"; }
  static bool is_weights(const HubRequest& r) { return r.method == "GET" && r.path.starts_with("/cdn/"); }
  static bool is_list(const HubRequest& r) { return r.path.starts_with("/api/"); }

  void expect_whole(const PullResult& result) {
    EXPECT_EQ(read_all(result.path / "model.safetensors"), weights_);
    EXPECT_EQ(read_all(result.path / "config.json"), kConfig);
    EXPECT_EQ(find_model(kModel, hub_), result.path);
    EXPECT_EQ(fs::exists(incomplete()), false);
  }

  const std::string weights_ = some_bytes(200'000);
  HubServer server_;
  TempFolder folder_;
  Hub hub_;
  PullOptions options_;
  std::vector<double> waits_;
};

}  // namespace bertie::test
