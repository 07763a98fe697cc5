#pragma once
// A small model directory in the sentence-transformers layout, to be changed at will: a golden model's
// weights, a vocabulary of letters, and modules.json with what each module needs.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bertie/text_model.h"
#include "io/file.h"
#include "support/data.h"
#include "support/numbers.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"

namespace bertie::test {

class MadeUpModel {
 public:
  static constexpr size_t kHidden = 64, kPositions = 33;

  explicit MadeUpModel(const std::string& golden = "plain") {
    const auto from = source_dir() / "tests/golden/models" / golden;
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(from / name, folder_.path() / name);
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary.append(1, c).append("\n##").append(1, c).append("\n");
    write("vocab.txt", vocabulary);
  }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, text);
  }
  // modules.json from (type, path) pairs; the first is the Transformer itself.
  void modules(const std::vector<std::pair<std::string, std::string>>& list) {
    std::string json = R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"})";
    for (const auto& [type, path] : list)
      json += fmt::format(R"(,{{"type":"sentence_transformers.models.{}","path":"{}"}})", type, path);
    write("modules.json", json + "]");
  }
  void pooling(const std::string& settings) {
    write("1_Pooling/config.json", fmt::format(R"({{"word_embedding_dimension":64,{}}})", settings));
  }
  // A Dense module of these weights, row by row.
  void dense(const std::string& path, size_t inputs, const std::vector<float>& weight,
             const std::vector<float>& bias, const std::string& activation) {
    const size_t outputs = bias.size(), split = 4 * bias.size(), end = split + 4 * weight.size();
    write(path + "/config.json",
          fmt::format(R"({{"in_features":{},"out_features":{},"bias":true,"activation_function":"{}"}})",
                      inputs, outputs, activation));
    std::string data(end, '\0');
    std::memcpy(data.data(), bias.data(), split);
    std::memcpy(data.data() + split, weight.data(), end - split);
    const std::string header =
        fmt::format(R"({{"linear.bias":{{"dtype":"F32","shape":[{0}],"data_offsets":[0,{2}]}},)"
                    R"("linear.weight":{{"dtype":"F32","shape":[{0},{1}],"data_offsets":[{2},{3}]}}}})",
                    outputs, inputs, split, end);
    write(path + "/model.safetensors", safetensors_file(header, data));
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  TextModel load(int threads = 1) const { return bertie::load(path(), {.threads = threads}); }

  // The last hidden states of a text, by way of Tokenizer and Run.
  std::vector<std::vector<double>> hidden(const std::string& text) const {
    const Encoding e = Tokenizer::load(path()).encode(text);
    bertie::Run run(Model::load(path()), 1);
    const std::vector<int32_t> offsets{0, int32_t(e.size())};
    const auto last = run.forward({.ids = e.ids, .offsets = offsets}).last_hidden;
    std::vector<std::vector<double>> rows;
    for (size_t t = 0; t < last.rows(); ++t) rows.emplace_back(last[t].begin(), last[t].end());
    return rows;
  }

 private:
  TempFolder folder_;
};

}  // namespace bertie::test
