#pragma once
// A copy of a golden model that can be spoiled.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "io/file.h"
#include "io/json.h"
#include "support/data.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"

namespace bertie::test {

class Spoiled {
 public:
  explicit Spoiled(const std::string& golden) : from_(source_dir() / "tests/golden" / golden) {
    for (const char* name : {"config.json", "model.safetensors"}) write(name, read(name));
  }
  std::string read(const std::string& name) const { return std::string(io::MappedFile(from_ / name).text()); }
  void write(const std::string& name, const std::string& bytes) { folder_.write(name, bytes); }
  void config(const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json c = nlohmann::json::parse(read("config.json"));
    change(c);
    write("config.json", c.dump());
  }
  // Changes what the header says; the tensors' bytes stay, and `more` come after them.
  void header(const std::function<void(nlohmann::json&)>& change, const std::string& more = {}) {
    const std::string file = read("model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    nlohmann::json h = nlohmann::json::parse(file.substr(8, length));
    change(h);
    write("model.safetensors", safetensors_file(h.dump(), file.substr(8 + length) + more));
  }
  // Adds a tensor of these numbers.
  void add(const std::string& name, const std::vector<size_t>& shape, const std::vector<float>& numbers) {
    std::string bytes(numbers.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    header(
        [&](nlohmann::json& h) {
          size_t end = 0;
          for (const auto& [key, value] : h.items())
            if (key != "__metadata__") end = std::max(end, value["data_offsets"][1].get<size_t>());
          h[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes.size()}}};
        },
        bytes);
  }
  void remove(const std::string& name) { std::filesystem::remove(folder_.path() / name); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  std::filesystem::path from_;
  TempFolder folder_;
};

inline void rename(nlohmann::json& header, const std::string& from, const std::string& to) {
  ASSERT_TRUE(header.contains(from)) << from;
  header[to] = header[from];
  header.erase(from);
}

}  // namespace bertie::test
