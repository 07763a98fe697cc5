#pragma once
// Small models and tasks that they can learn in a second.
#include <filesystem>
#include <fstream>
#include <string>

#include "bertie/finetune.h"
#include "bertie/model.h"
#include "core/random.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace bertie::test {

namespace fs = std::filesystem;

inline constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]"
    "\ngood\nbad\nfine\npoor\nthe\nfilm\nwas\na\nbook\nvery\nann\nbob\nparis\n"
    "rome\nlives\nin\nwho\nwhere\n?\n.\n";

inline void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
inline std::string read(const fs::path& file) { return std::string(io::MappedFile(file).text()); }

// A small model with random weights and a tokenizer, without a head.
inline fs::path make_model(const TempFolder& temp, const std::string& type = "bert",
                           const std::vector<Head>& heads = {}, size_t layers = 2) {
  const fs::path folder = temp.path() / type;
  Config c;
  c.model_type = type;
  c.layers = layers, c.hidden = 32, c.heads = 2, c.intermediate = 64, c.vocabulary = 25, c.positions = 40;
  c.dropout = c.attention_dropout = 0;
  if (type == "distilbert") c.types = 0;
  Model::random(c, 1, heads).save(folder);
  write(folder / "vocab.txt", kVocabulary);
  return folder;
}

inline const char* pick(Random& random, std::initializer_list<const char*> words) {
  return words.begin()[random.below(uint32_t(words.size()))];
}

// Texts that one word decides.
inline std::string reviews(size_t rows, uint64_t seed) {
  Random random(seed);
  std::string out = "text\tlabel\n";
  for (size_t i = 0; i < rows; ++i) {
    const bool good = random.below(2) == 0;
    out += std::string("the ") + pick(random, {"film", "book"}) + " was " +
           pick(random, {"very ", "a ", ""}) +
           (good ? pick(random, {"good", "fine"}) : pick(random, {"bad", "poor"})) + " .\t" +
           (good ? "praise" : "complaint") + "\n";
  }
  return out;
}

inline FinetuneJob job_for(TaskKind kind, const fs::path& model, const fs::path& train, const fs::path& out) {
  FinetuneJob job{
      .kind = kind, .model = model.string(), .train_file = train.string(), .epochs = 8, .threads = 2};
  job.train.out = out, job.train.rate = 3e-3, job.train.batch = 16;
  return job;
}

inline double first_score(const FinetuneResult& r) { return r.seeds.at(r.best).scores.at(0).value; }

}  // namespace bertie::test
