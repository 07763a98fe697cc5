// bertie convert's work: names, types, what is left out, what is copied, and what goes wrong.
#include "bertie/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "bertie/error.h"
#include "bertie/model.h"
#include "bertie/prune.h"
#include "bertie/quantize.h"
#include "bertie/tokenizer.h"
#include "io/half.h"
#include "io/safetensors_writer.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

fs::path golden(const std::string& name) { return test::source_dir() / "tests/golden" / name; }

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t entries(const fs::path& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

io::TensorSource source(const std::string& name, const io::TensorInfo& t) {
  return {.name = name, .shape = t.shape, .read = [&t](size_t first, std::span<float> out) {
            io::to_float(t, first, out);
          }};
}

// The plain golden model with its tensors renamed by `rename` (an empty name leaves one out), and `more` of
// them.
fs::path changed_model(const test::TempFolder& folder, const std::function<std::string(std::string)>& rename,
                       const std::vector<std::pair<std::string, std::string>>& more = {}) {
  const fs::path model = folder.path() / "old";
  fs::create_directories(model);
  fs::copy_file(golden("models/plain/config.json"), model / "config.json");
  const io::SafeTensors files = io::SafeTensors::open(golden("models/plain"));
  std::vector<io::TensorSource> sources;
  for (const io::TensorInfo& t : files.tensors())
    if (const std::string name = rename(t.name); !name.empty()) sources.push_back(source(name, t));
  for (const auto& [name, of] : more) sources.push_back(source(name, *files.find(of)));
  io::write_safetensors(model / "model.safetensors", io::DType::kF32, sources);
  return model;
}

const auto kSame = [](std::string name) { return name; };

TEST(Convert, TensorFlowsNamesBecomeTransformersFilesByteForByte) {
  for (const char* name : {"bert", "bert_classifier", "bert_squad", "albert", "gpt2"}) {
    SCOPED_TRACE(name);
    const test::TempFolder folder;
    const fs::path from = golden("convert") / name, to = folder.path() / "new";
    const Conversion converted = convert({.from = from / "model.npz", .to = to});
    EXPECT_TRUE(read_all(to / "model.safetensors") == read_all(from / "expected.safetensors"));
    EXPECT_EQ(converted.renamed, converted.tensors);
    EXPECT_EQ(converted.dropped.size(),
              std::strcmp(name, "bert") == 0 ? 3u : 0u);  // global_step, adam_m, adam_v
    EXPECT_EQ(converted.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
    EXPECT_EQ(entries(folder.path()), 1u);
    EXPECT_NO_THROW(Model::load(to));
  }
}

TEST(Convert, TensorFlowsOwnFilesAreReadLikeTheirNumbersInNpz) {
  const test::TempFolder folder;
  for (const std::string name : {"bert", "albert"}) {
    SCOPED_TRACE(name);
    const fs::path from = golden("tensorflow") / name, prefix = from / (name + "_model.ckpt");
    const std::string expected = read_all(golden("convert") / name / "expected.safetensors");
    int i = 0;
    for (const fs::path& given : {from, prefix, fs::path(prefix.string() + ".index"),
                                  fs::path(prefix.string() + ".data-00000-of-00001")}) {
      const fs::path to = folder.path() / (name + std::to_string(i++));
      const Conversion converted = convert({.from = given, .to = to});
      EXPECT_TRUE(read_all(to / "model.safetensors") == expected) << given;
      EXPECT_EQ(converted.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
    }
    const test::TempFolder saved;  // a SavedModel has its tensors in a folder below
    fs::create_directory(saved.path() / "variables");
    for (const char* end : {".index", ".data-00000-of-00001"})
      fs::copy_file(prefix.string() + end, saved.path() / "variables" / (std::string("variables") + end));
    fs::copy_file(from / (name + "_config.json"), saved.path() / "bert_config.json");
    for (const fs::path& given : {saved.path(), saved.path() / "variables" / "variables"}) {
      const fs::path to = folder.path() / (name + std::to_string(i++));
      const Conversion converted = convert({.from = given, .to = to});
      EXPECT_TRUE(read_all(to / "model.safetensors") == expected) << given;
      EXPECT_EQ(converted.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
    }
  }
}

TEST(Convert, AGoogleFolderIsLoadedAsItIs) {
  const test::TempFolder folder;
  const std::vector<int32_t> ids{1, 5, 9, 3}, offsets{0, 4};
  for (const char* name : {"bert", "albert"}) {
    convert({.from = golden("tensorflow") / name, .to = folder.path() / name});
    const Model converted = Model::load(folder.path() / name),
                direct = Model::load(golden("tensorflow") / name);
    bertie::Run a(converted), b(direct);
    const auto x = a.forward({.ids = ids, .offsets = offsets}).last_hidden,
               y = b.forward({.ids = ids, .offsets = offsets}).last_hidden;
    ASSERT_EQ(x.rows(), 4u);
    for (size_t r = 0; r < x.rows(); ++r) EXPECT_TRUE(std::ranges::equal(x[r], y[r])) << name;
  }
}

TEST(Convert, ACasedVocabularyOfGooglesStaysCased) {
  const test::TempFolder folder, given;
  for (const auto& entry : fs::directory_iterator(golden("tensorflow/bert")))
    fs::copy_file(entry.path(), given.path() / entry.path().filename());
  const std::string start = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n";
  given.write("vocab.txt", start);
  convert({.from = given.path(), .to = folder.path() / "uncased"});
  EXPECT_TRUE(Tokenizer::load(given.path()).lowercase());
  EXPECT_TRUE(Tokenizer::load(folder.path() / "uncased").lowercase());
  given.write("vocab.txt", start + "A\nB\n");
  convert({.from = given.path(), .to = folder.path() / "cased"});
  EXPECT_FALSE(Tokenizer::load(given.path()).lowercase());
  EXPECT_FALSE(Tokenizer::load(folder.path() / "cased").lowercase());
  quantize({.from = given.path(), .to = folder.path() / "integers"});
  EXPECT_FALSE(Tokenizer::load(folder.path() / "integers").lowercase());
  prune({.from = given.path(), .to = folder.path() / "pruned", .heads = {{0, 0}}});
  EXPECT_FALSE(Tokenizer::load(folder.path() / "pruned").lowercase());
}

// ALBERT's folder calls its pieces otherwise.
TEST(Convert, GooglesAlbertBringsItsTokenizer) {
  const test::TempFolder folder, given;
  for (const auto& entry : fs::directory_iterator(golden("tensorflow/albert")))
    fs::copy_file(entry.path(), given.path() / entry.path().filename());
  given.write("30k-clean.model", "x");
  convert({.from = given.path(), .to = folder.path() / "new"});
  EXPECT_EQ(read_all(folder.path() / "new/spiece.model"), "x");
}

TEST(Convert, AnExportedGraphBecomesItsModelAgain) {
  const test::TempFolder folder;
  const io::SafeTensors model = io::SafeTensors::open(golden("onnx/model.safetensors"));
  for (const char* name : {"named", "numbered", "wrapped", "today"}) {
    const fs::path to = folder.path() / name;
    convert({.from = golden("onnx") / (std::string(name) + ".onnx"), .to = to});
    const io::SafeTensors made = io::SafeTensors::open(to);
    EXPECT_EQ(made.tensors().size(), model.tensors().size()) << name;
    for (const io::TensorInfo& t : model.tensors()) {
      ASSERT_TRUE(made.find(t.name)) << name << ": " << t.name;
      EXPECT_TRUE(std::ranges::equal(made.find(t.name)->data, t.data)) << name << ": " << t.name;
    }
  }
  // As on the hub: the graph in a folder of its own below config.json.
  const test::TempFolder hub;
  fs::create_directory(hub.path() / "onnx");
  fs::copy_file(golden("onnx/named.onnx"), hub.path() / "onnx/model.onnx");
  fs::copy_file(golden("onnx/config.json"), hub.path() / "config.json");
  convert({.from = hub.path() / "onnx/model.onnx", .to = folder.path() / "hub"});
  EXPECT_NO_THROW(Model::load(folder.path() / "hub"));
}

TEST(Convert, AnOwnConfigGetsTheTypeThatTransformersNeeds) {
  const test::TempFolder folder;
  convert({.from = golden("convert/bert/model.npz"), .to = folder.path() / "new"});
  EXPECT_NE(read_all(folder.path() / "new/config.json").find("\"model_type\": \"bert\""), std::string::npos);
  // Where nothing changes, not a byte does.
  convert({.from = golden("convert/gpt2/model.npz"), .to = folder.path() / "gpt2"});
  EXPECT_EQ(read_all(folder.path() / "gpt2/config.json"), read_all(golden("convert/gpt2/config.json")));
}

TEST(Convert, AModelThatIsAsItShouldBeStaysAsItIs) {
  const test::TempFolder folder;
  for (const char* name : {"plain", "bfloat16", "four_layers_sharded", "no_pooler"}) {
    SCOPED_TRACE(name);
    const fs::path to = folder.path() / name;
    const Conversion converted = convert({.from = golden("models") / name, .to = to});
    EXPECT_EQ(converted.renamed, 0u);
    const io::SafeTensors before = io::SafeTensors::open(golden("models") / name),
                          after = io::SafeTensors::open(to);
    for (const io::TensorInfo& t : after.tensors()) {
      const io::TensorInfo* old = before.find(t.name);
      ASSERT_TRUE(old) << t.name;
      EXPECT_EQ(t.dtype, old->dtype);
      ASSERT_TRUE(std::equal(t.data.begin(), t.data.end(), old->data.begin(), old->data.end())) << t.name;
    }
    EXPECT_EQ(after.tensors().size() + converted.dropped.size(), before.tensors().size());
    EXPECT_EQ(read_all(to / "config.json"), read_all(golden("models") / name / "config.json"));
  }
}

TEST(Convert, OtherTypesRoundAndConfigSaysSo) {
  const test::TempFolder folder;
  for (const auto& [precision, dtype, said, narrow] :
       {std::tuple(Precision::kFloat16, io::DType::kF16, "float16", &io::float_to_f16),
        {Precision::kBFloat16, io::DType::kBF16, "bfloat16", &io::float_to_bf16}}) {
    const fs::path to = folder.path() / said;
    convert({.from = golden("models/plain"), .to = to, .precision = precision});
    const io::SafeTensors before = io::SafeTensors::open(golden("models/plain")),
                          after = io::SafeTensors::open(to);
    for (const io::TensorInfo& t : after.tensors()) {
      EXPECT_EQ(t.dtype, dtype);
      std::vector<float> values(t.elements());
      io::to_float(*before.find(t.name), 0, values);
      std::vector<std::byte> halves(2 * values.size());
      narrow(values, halves.data());
      EXPECT_TRUE(std::equal(halves.begin(), halves.end(), t.data.begin(), t.data.end())) << t.name;
    }
    EXPECT_NE(read_all(to / "config.json").find(std::string("type\": \"") + said + "\""), std::string::npos);
    // And back: the numbers stay those of the narrow type.
    convert(
        {.from = to, .to = folder.path() / (std::string(said) + "-back"), .precision = Precision::kFloat32});
  }
}

TEST(Convert, LegacyNamesCopiesAndBuffersGo) {
  const test::TempFolder folder;
  const fs::path old =
      changed_model(folder,
                    [](std::string name) {
                      for (const auto& [now, then] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                                                      {"LayerNorm.bias", "LayerNorm.beta"}})
                        if (name.ends_with(now))
                          name.replace(name.size() - std::strlen(now), std::strlen(now), then);
                      return "module." + name;
                    },
                    {{"module.cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                     {"module.bert.embeddings.position_ids", "bert.embeddings.LayerNorm.bias"}});
  const Conversion converted = convert({.from = old, .to = folder.path() / "new"});
  EXPECT_EQ(converted.dropped.size(), 2u);
  EXPECT_TRUE(read_all(folder.path() / "new/model.safetensors") ==
              read_all(golden("models/plain/model.safetensors")));
}

// W + B·A, as a model below a larger one has them.
TEST(Convert, LowRankChangesBecomePartOfTheirWeights) {
  const test::TempFolder folder;
  const fs::path model = changed_model(folder, kSame);
  const io::SafeTensors before = io::SafeTensors::open(golden("models/plain"));
  std::vector<io::TensorSource> sources;
  const io::TensorInfo* weight = nullptr;
  for (const io::TensorInfo& t : before.tensors()) {
    sources.push_back(source(t.name, t));
    if (t.name.ends_with("layer.0.attention.output.dense.weight")) weight = &t;
  }
  ASSERT_TRUE(weight);
  const std::string stem = weight->name.substr(0, weight->name.rfind('.'));
  const auto constant = [](const std::string& name, std::vector<size_t> shape, float value) {
    return io::TensorSource{
        .name = name, .shape = std::move(shape), .read = [value](size_t, std::span<float> out) {
          std::fill(out.begin(), out.end(), value);
        }};
  };
  sources.push_back(constant(stem + ".lora_A.weight", {1, weight->shape[1]}, 0.5f));
  sources.push_back(constant(stem + ".lora_B.weight", {weight->shape[0], 1}, 0.25f));
  io::write_safetensors(model / "model.safetensors", io::DType::kF32, sources);
  convert({.from = model, .to = folder.path() / "new"});
  const io::SafeTensors after = io::SafeTensors::open(folder.path() / "new");
  EXPECT_EQ(after.tensors().size(), before.tensors().size());
  std::vector<float> old(weight->elements()), now(weight->elements());
  io::to_float(*weight, 0, old);
  io::to_float(*after.find(weight->name), 0, now);
  for (size_t i = 0; i < old.size(); ++i) ASSERT_FLOAT_EQ(now[i], old[i] + 0.125f);
}

TEST(Convert, ATensorThatIsMissingIsToldOfTheOldFolder) {
  const test::TempFolder folder;
  const fs::path old = changed_model(folder, [](const std::string& name) {
    return name == "bert.encoder.layer.1.output.dense.bias" ? "" : name;
  });
  expect_error(old.string() + ": tensor bert.encoder.layer.1.output.dense.bias is missing",
               [&] { convert({.from = old, .to = folder.path() / "new"}); });
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Convert, TensorsThatNobodyKnowsAreAnErrorOrLeftOut) {
  const test::TempFolder folder;
  const fs::path old = changed_model(folder, kSame,
                                     {{"bert.embeddings.word_embedings.weight", "bert.pooler.dense.bias"},
                                      {"extra.bias", "bert.pooler.dense.bias"}});
  const fs::path to = folder.path() / "new";
  try {
    convert({.from = old, .to = to, .drop = {"extra.bias"}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"bert.embeddings.word_embedings.weight\""), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(old.string()), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("embeddings.word_embeddings.weight"), std::string::npos) << error.hint();
    EXPECT_NE(error.hint().find("drop_unknown"), std::string::npos) << error.hint();
  }
  expect_error("there is no tensor \"extra.bia\" to drop",
               [&] { convert({.from = old, .to = to, .drop = {"extra.bia"}, .drop_unknown = true}); });
  EXPECT_EQ(entries(folder.path()), 1u);
  const Conversion converted = convert({.from = old, .to = to, .drop = {"extra.bias"}, .drop_unknown = true});
  EXPECT_EQ(converted.dropped.size(), 2u);
  EXPECT_NO_THROW(Model::load(to));
}

TEST(Convert, ACopyThatDiffersIsAnError) {
  const test::TempFolder folder;
  const fs::path old =
      changed_model(folder, kSame, {{"cls.predictions.decoder.weight", "bert.pooler.dense.weight"}});
  expect_error("should be a copy of \"bert.embeddings.word_embeddings.weight\"",
               [&] { convert({.from = old, .to = folder.path() / "new"}); });
}

TEST(Convert, TwoTensorsOfOneNameAreAnError) {
  const test::TempFolder folder;
  const fs::path old =
      changed_model(folder, kSame, {{"bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"}});
  expect_error("are both bert.embeddings.LayerNorm.weight",
               [&] { convert({.from = old, .to = folder.path() / "new"}); });
}

TEST(Convert, TheTokenizerAndTheModulesComeAlong) {
  const test::TempFolder folder;
  const fs::path old = changed_model(folder, kSame);
  for (const char* name : {"vocab.txt", "tokenizer.json", "merges.txt", "secret.txt", "pytorch_model.bin"})
    std::ofstream(old / name) << name;
  std::ofstream(old / "modules.json")
      << R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
    {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])";
  fs::create_directory(old / "1_Pooling");
  std::ofstream(old / "1_Pooling/config.json")
      << R"({"word_embedding_dimension":64,"pooling_mode_mean_tokens":true})";
  const Conversion converted = convert({.from = old, .to = folder.path() / "new"});
  EXPECT_EQ(converted.files,
            (std::vector<std::string>{"1_Pooling/config.json", "config.json", "merges.txt",
                                      "model.safetensors", "modules.json", "tokenizer.json", "vocab.txt"}));
  EXPECT_EQ(read_all(folder.path() / "new/vocab.txt"), "vocab.txt");
}

TEST(Convert, OnlyForceReplacesAndOnlyAModel) {
  const test::TempFolder folder;
  const fs::path from = golden("models/plain"), to = folder.path() / "new";
  const auto replace = [&] { convert({.from = from, .to = to, .force = true}); };
  fs::create_directory(to);
  convert({.from = from, .to = to});  // an empty folder is as good as none
  expect_error("is there already", [&] { convert({.from = from, .to = to}); });
  expect_error("what is converted is in it", [&] { convert({.from = to, .to = to, .force = true}); });
  // An error in the middle leaves the old folder as it was.
  std::ofstream(to / "vocab.txt") << "old";
  const ConvertOptions interrupted{
      .from = from, .to = to, .force = true, .progress = [](uint64_t done, uint64_t) {
        if (done > 0) throw Error("enough");
      }};
  expect_error("enough", [&] { convert(interrupted); });
  EXPECT_EQ(read_all(to / "vocab.txt"), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
  replace();
  EXPECT_FALSE(fs::exists(to / "vocab.txt"));
  EXPECT_EQ(entries(folder.path()), 1u);
  std::ofstream(to / "vocab.txt") << "old";
  for (const char* needed : {"model.safetensors", "config.json"}) {
    fs::remove(to / needed);
    expect_error(std::string("not a model's folder: it has no ") + needed, replace);
  }
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Convert, ForceDeletesNothingThatIsNotConvertsOwn) {
  const test::TempFolder folder;
  const fs::path from = golden("models/plain"), to = folder.path() / "new";
  const auto replace = [&] { convert({.from = from, .to = to, .force = true}); };
  convert({.from = from, .to = to});
  for (const char* strange : {"thesis.tex", ".git/HEAD", "1_Pooling/config.json", "model-1.safetensors"}) {
    const fs::path file = to / strange, top = to / *fs::path(strange).begin();
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "mine";
    expect_error("has \"" + top.filename().string() + "\" in it", replace);
    EXPECT_EQ(read_all(file), "mine");
    fs::remove_all(top);
  }
  fs::create_symlink("/dev/null", to / "vocab.txt");
  expect_error("has \"vocab.txt\" in it", replace);
  fs::remove(to / "vocab.txt");
  // What came while it worked counts too.
  const ConvertOptions meanwhile{.from = from, .to = to, .force = true, .progress = [&](uint64_t, uint64_t) {
                                   std::ofstream(to / "notes.txt") << "mine";
                                 }};
  expect_error("has \"notes.txt\" in it", [&] { convert(meanwhile); });
  EXPECT_EQ(read_all(to / "notes.txt"), "mine");
  EXPECT_EQ(entries(folder.path()), 1u);
  fs::remove(to / "notes.txt");
  // A model with modules is replaced, its folders too; others' folders are not.
  std::ofstream(to / "modules.json")
      << R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
    {"idx":1,"name":"1","path":"1_Pooling/","type":"sentence_transformers.models.Pooling"}])";
  fs::create_directory(to / "1_Pooling");
  std::ofstream(to / "1_Pooling/config.json") << "{}";
  std::ofstream(to / "1_Pooling/photo.jpg") << "mine";
  expect_error("has \"1_Pooling/photo.jpg\" in it", replace);
  fs::remove(to / "1_Pooling/photo.jpg");
  replace();
  EXPECT_FALSE(fs::exists(to / "1_Pooling"));
}

TEST(Convert, ALinkStaysAndWhatItLeadsToIsWritten) {
  const test::TempFolder folder;
  const fs::path from = golden("models/plain"), to = folder.path() / "real", link = folder.path() / "link";
  fs::create_directory(to);
  fs::create_directory_symlink("real", link);
  for (const bool force : {false, true}) {
    convert({.from = from, .to = link, .force = force});
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::exists(to / "model.safetensors"));
  }
  EXPECT_EQ(entries(folder.path()), 2u);
  fs::create_directory_symlink("nowhere", folder.path() / "broken");
  expect_error("a link to nothing", [&] { convert({.from = from, .to = folder.path() / "broken"}); });
}

TEST(Convert, WhoGivesUpBeforeItWritesSeesNoFolder) {
  const test::TempFolder folder;
  const ConvertOptions conversion{
      .from = golden("models/plain"), .to = folder.path() / "new", .progress = [&](uint64_t, uint64_t) {
        EXPECT_EQ(entries(folder.path()), 0u);
        throw Error("enough");
      }};
  expect_error("enough", [&] { convert(conversion); });
}

TEST(Convert, WhatIsNotReadIsSaidWithAWayOut) {
  const test::TempFolder folder;
  for (const auto& [name, why, way] : {std::tuple("m.bin", "not a file of tensors", "torch.save"),
                                       {"m.pt", "not a file of tensors", "torch.save"},
                                       {"m.pkl", "pickle", "weights_only=True"},
                                       {"m.ckpt", "TensorFlow", "numpy.savez"},
                                       {"m.meta", "TensorFlow", "numpy.savez"},
                                       {"m.index", "not the index of a TensorFlow checkpoint", "download"},
                                       {"m.h5", "Keras", "save_pretrained"},
                                       {"m.onnx", "not an ONNX model", "download"},
                                       {"m.msgpack", "Flax", "save_pretrained"}}) {
    const fs::path from = folder.write(name, "x");
    try {
      convert({.from = from, .to = folder.path() / "new"});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(way), std::string::npos) << error.hint();
    }
  }
  expect_error("neither",
               [&] { convert({.from = folder.write("m.txt", "x"), .to = folder.path() / "new"}); });
  expect_error("no such folder",
               [&] { convert({.from = folder.path() / "no", .to = folder.path() / "new"}); });
  const test::TempFolder pickled;
  pickled.write("pytorch_model.bin", "x");
  expect_error("pytorch_model.bin", [&] { convert({.from = pickled.path(), .to = folder.path() / "new"}); });
}

TEST(Convert, FewerTokensAreTheSameModelForTextsOfThese) {
  const test::TempFolder folder;
  const fs::path old = folder.path() / "old";
  fs::copy(golden("families/bert-masked-lm-0"), old);
  const Config config = Config::load(old);
  std::string all, some;
  const std::vector<int32_t> kept{0, 3, 4, 7, 8, 20};
  const auto name = [](int32_t id) {
    return id == 0   ? "[PAD]"
           : id == 3 ? "[UNK]"
           : id == 4 ? "[CLS]"
           : id == 7 ? "[SEP]"
                     : "w" + std::to_string(id);
  };
  for (int32_t id = 0; id < int32_t(config.vocabulary); ++id) all += name(id) + "\n";
  for (const int32_t id : kept) some += name(id) + "\n";
  std::ofstream(old / "vocab.txt") << all;
  const fs::path vocabulary = folder.write("some.txt", some), to = folder.path() / "new";
  convert({.from = old, .to = to, .vocabulary = vocabulary});
  EXPECT_EQ(Config::load(to).vocabulary, kept.size());
  EXPECT_EQ(read_all(to / "vocab.txt"), some);
  const Model before = Model::load(old), after = Model::load(to);
  const std::vector<int32_t> ids{4, 20, 8, 7}, renumbered{2, 5, 4, 3}, offsets{0, 4};
  bertie::Run a(before, 1), b(after, 1);
  const Matrix<const float> x = a.forward({.ids = ids, .offsets = offsets}).last_hidden,
                            y = b.forward({.ids = renumbered, .offsets = offsets}).last_hidden;
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < x.cols(); ++c) ASSERT_EQ(x(r, c), y(r, c));
  const Matrix<const float> z = a.forward({.ids = ids, .offsets = offsets}, {.head = Head::kMaskedLm}).logits,
                            w = b.forward({.ids = renumbered, .offsets = offsets}, {.head = Head::kMaskedLm})
                                    .logits;
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(z(1, size_t(kept[i])), w(1, i));
  expect_error("\"word\" is not one of the tokens", [&] {
    convert(
        {.from = old, .to = folder.path() / "none", .vocabulary = folder.write("more.txt", some + "word\n")});
  });
}

TEST(Convert, WithoutAConfigThereIsNoModel) {
  const test::TempFolder folder;
  const fs::path from = folder.path() / "model.npz", to = folder.path() / "new";
  fs::copy_file(golden("convert/bert/model.npz"), from);
  expect_error("no config.json in", [&] { convert({.from = from, .to = to}); });
  EXPECT_NO_THROW(convert({.from = from, .to = to, .config = golden("convert/bert/config.json")}));
  const fs::path wrong = folder.write("wrong.json", R"({"model_type":"bert","hidden_size":"many"})");
  expect_error(wrong.string() + ": \"hidden_size\"",
               [&] { convert({.from = from, .to = folder.path() / "other", .config = wrong}); });
  // Another model's: the shapes differ.
  expect_error("has shape", [&] {
    convert({.from = from, .to = folder.path() / "other", .config = golden("models/plain/config.json")});
  });
}

}  // namespace
}  // namespace bertie
