// Every command on a small model: what it prints and what it writes.
#include <cmath>

#include "bertie/files.h"
#include "bertie/text_model.h"
#include "program.h"

using namespace bertie::test;

namespace {

size_t columns(const std::string& line) {
  size_t count = 0;
  for (char c : line) count += (c & 0xC0) != 0x80;
  return count;
}

TEST(Tokenize, TheTableShowsTokensIdsPlacesAndTheTextThere) {
  const ModelFolder model;
  const Result r = run({"tokenize", "-m", model.name(), "You found\tunbelievable"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out,
            "token     id  place  text\n"
            "[CLS]      2\n"
            "you        5    0-3  You\n"
            "found      6    4-9  found\n"
            "un        11  10-12  un\n"
            "##believ  12  12-18  believ\n"
            "##able    13  18-22  able\n"
            "[SEP]      3\n");
}

TEST(Tokenize, JsonHasEverything) {
  const ModelFolder model;
  const Result r = run({"tokenize", "-m", model.name(), "--json", "--pair", "me!", "You", "the [MASK]"});
  ASSERT_EQ(lines(r.out).size(), 2u);
  const json first = json::parse(lines(r.out)[0]), second = json::parse(lines(r.out)[1]);
  EXPECT_EQ(
      first,
      json::parse(
          R"({"index":0,"a":"You","b":"me!","tokens":["[CLS]","you","[SEP]","me","!","[SEP]"],"ids":[2,5,3,7,16,3],
    "types":[0,0,0,1,1,1],"offsets":[[0,0],[0,3],[0,0],[0,2],[2,3],[0,0]],"truncated":false})"));
  EXPECT_EQ(second["ids"], json::parse("[2,8,4,3,7,16,3]"));
}

TEST(Tokenize, OptionsReachTheTokenizer) {
  const ModelFolder model;
  const auto ids = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"tokenize", "--ids", "-m", model.name()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments).out;
  };
  EXPECT_EQ(ids({"--no-special", "You me"}), "5 7\n");
  EXPECT_EQ(ids({"--no-special", "[MASK]"}), "4\n");
  EXPECT_EQ(ids({"--no-special", "--plain-specials", "[MASK]"}), "1 1 1\n");
  EXPECT_EQ(ids({"--max-length", "5", "--stride", "1", "you found me the river"}), "2 5 6 7 3\n2 7 8 9 3\n");
  const std::string vocab = (model / "vocab.txt").string();
  EXPECT_EQ(run({"tokenize", "--ids", "--no-special", "--vocab", vocab, "You"}).out, "5\n");
  EXPECT_EQ(run({"tokenize", "--ids", "--no-special", "--vocab", vocab, "--cased", "You"}).out, "19\n");
}

TEST(Tokenize, WhatIsCutIsSaidOnceAtTheEnd) {
  const ModelFolder model;
  const Result r = run(
      {"tokenize", "-m", model.name(), "--ids", "--max-length", "4", "you", "you found me", "me the river"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "2 5 3\n2 5 6 3\n2 7 8 3\n");
  EXPECT_EQ(lines(r.err)[0], "bertie: 2 of 3 texts had more than 4 tokens and were cut");
  EXPECT_EQ(run({"-q", "tokenize", "-m", model.name(), "--ids", "--max-length", "4", "you found me"}).err,
            "");
}

std::vector<std::vector<float>> vectors(const std::string& json_lines) {
  std::vector<std::vector<float>> all;
  for (const std::string& line : lines(json_lines)) {
    const json object = json::parse(line);
    EXPECT_EQ(object["index"].get<size_t>(), all.size());
    all.push_back(object["vector"].get<std::vector<float>>());
  }
  return all;
}

TEST(Embed, GivesTheLibrarysVectorsToTheLastBit) {
  const ModelFolder model;
  const std::vector<std::string> texts = {"You found me.", "", "the river bank", "\xE6\x97\xA5 unbelievable"};
  const Result r = run({"embed", "-m", model.name(), texts[0], texts[1], texts[2], texts[3]});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const auto got = vectors(r.out);
  ASSERT_EQ(got.size(), texts.size());
  const auto encoder = bertie::load(model.path(), {.threads = 1});
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(got[i], encoder.embed(texts[i]).values);
}

TEST(Embed, WordsFilesAndStandardInputGiveTheSame) {
  const ModelFolder model;
  const TemporaryFolder folder;
  write_all(folder / "unix", "you\nfound me\n\nthe bank\n");
  write_all(folder / "dos", "you\r\nfound me\r\n\r\nthe bank");
  write_all(folder / "one", "you\nfound me\n");
  write_all(folder / "two", "\nthe bank");
  const std::string expected = run({"embed", "-m", model.name(), "you", "found me", "", "the bank"}).out;
  EXPECT_EQ(vectors(expected).size(), 4u);
  const auto embed = [&](std::vector<std::string> more, const How& how = {}) {
    more.insert(more.begin(), {"embed", "-m", model.name()});
    return run(more, how).out;
  };
  EXPECT_EQ(embed({"--file", folder / "unix"}), expected);
  EXPECT_EQ(embed({"--file", folder / "dos"}), expected);
  EXPECT_EQ(embed({"-f", folder / "one", "-f", folder / "two"}), expected);
  EXPECT_EQ(embed({"you", "found me", "-f", folder / "two"}), expected);
  EXPECT_EQ(embed({}, {.input = "you\nfound me\n\nthe bank\n"}), expected);
  EXPECT_EQ(embed({"-f", folder / "one", "-f", "-"}, {.input = "\nthe bank\n"}), expected);
  EXPECT_EQ(embed({}, {.input = ""}), "");
}

TEST(Embed, NpyHoldsTheSameNumbersInOneArrayWhateverTheNumberOfBlocks) {
  const ModelFolder model;
  const TemporaryFolder folder;
  std::string input;
  const std::vector<std::string> words = {"you", "found", "me", "the", "river", "bank", "unbelievable", "."};
  for (size_t i = 0; i < 2500; ++i)  // more than two blocks
    input += words[i % 8] + " " + words[i / 8 % 8] + (i % 5 ? " me\n" : "\n");
  const Result r = run({"embed", "-m", model.name(), "--npy", folder / "v.npy"}, {.input = input});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out + r.err, "");
  EXPECT_EQ(folder.entries(), 1u);
  const Npy npy = read_npy(folder / "v.npy");
  EXPECT_EQ(npy.shape, (std::vector<size_t>{2500, 64}));
  const auto expected = vectors(run({"embed", "-m", model.name()}, {.input = input}).out);
  ASSERT_EQ(npy.values.size(), 2500u * 64);
  for (size_t i = 0; i < 2500; ++i)
    ASSERT_TRUE(std::equal(expected[i].begin(), expected[i].end(), npy.values.begin() + ptrdiff_t(i * 64)))
        << i;
}

TEST(Embed, NpyOfNothingHasNoRows) {
  const ModelFolder model;
  const TemporaryFolder folder;
  EXPECT_EQ(run({"embed", "-m", model.name(), "--npy", folder / "v.npy"}, {.input = ""}).code, 0);
  EXPECT_EQ(read_npy(folder / "v.npy").shape, (std::vector<size_t>{0, 64}));
}

TEST(Embed, LongTextsAreCutAndCountedNotDroppedInSilence) {
  const ModelFolder model;
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "you ";
  const Result r = run({"embed", "-m", model.name(), "me", long_text});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(vectors(r.out).size(), 2u);
  EXPECT_EQ(lines(r.err)[0], "bertie: 1 of 2 texts had more than 33 tokens and were cut");
  const Result shorter =
      run({"embed", "-m", model.name(), "--max-length", "3", "you found", "you me", "you"});
  EXPECT_EQ(lines(shorter.err)[0], "bertie: 2 of 3 texts had more than 3 tokens and were cut");
  EXPECT_NE(lines(shorter.err)[1].find("--max-length 33"), std::string::npos);
  const auto got = vectors(shorter.out);
  EXPECT_EQ(got[0], got[2]);
}

TEST(Embed, SaysHowFarItIsWhenAsked) {
  const ModelFolder model;
  const Result r = run({"embed", "-v", "-m", model.name(), "you", "me"});
  EXPECT_NE(r.err.find("2 texts in "), std::string::npos) << r.err;
}

TEST(Attend, JsonHasAllLayersAndHeadsAndRowsThatSumToOne) {
  const ModelFolder model;
  const Result r = run({"attend", "-m", model.name(), "--json", "--pair", "the bank", "You found me"});
  EXPECT_EQ(r.code, 0) << r.err;
  const json a = json::parse(r.out);
  EXPECT_EQ(a["tokens"], json::parse(R"(["[CLS]","you","found","me","[SEP]","the","bank","[SEP]"])"));
  EXPECT_EQ(a["shape"], json::parse("[2,2,8,8]"));
  ASSERT_EQ(a["weights"].size(), 2u);
  for (const json& layer : a["weights"]) {
    ASSERT_EQ(layer.size(), 2u);
    for (const json& head : layer) {
      ASSERT_EQ(head.size(), 8u);
      for (const json& row : head) {
        ASSERT_EQ(row.size(), 8u);
        double sum = 0;
        for (double w : row) sum += w;
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  }
}

TEST(Attend, NpyHoldsWhatJsonShows) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const Result r = run({"attend", "-m", model.name(), "--json", "--npy", folder / "a.npy", "You found me"});
  EXPECT_EQ(r.code, 0) << r.err;
  const Npy npy = read_npy(folder / "a.npy");
  EXPECT_EQ(npy.shape, (std::vector<size_t>{2, 2, 5, 5}));
  std::vector<float> expected;
  const json shown = json::parse(r.out);
  for (const json& layer : shown["weights"])
    for (const json& head : layer)
      for (const json& row : head)
        for (const json& w : row) expected.push_back(w.get<float>());
  EXPECT_EQ(npy.values, expected);
}

TEST(Attend, TheTableShowsTheLayerAndHeadAskedForCountedFromOne) {
  const ModelFolder model;
  const json a = json::parse(run({"attend", "-m", model.name(), "--json", "You found me"}).out);
  const auto percents = [](const json& row) {
    std::string out;
    for (double w : row) out += std::to_string(int(std::lround(w * 100))) + " ";
    return out;
  };
  for (size_t layer : {1u, 2u})
    for (size_t head : {1u, 2u}) {
      const Result r = run({"attend", "-m", model.name(), "--layer", std::to_string(layer), "--head",
                            std::to_string(head), "You found me"});
      EXPECT_EQ(r.code, 0) << r.err;
      const auto shown = lines(r.out);
      EXPECT_TRUE(shown[0].starts_with("layer " + std::to_string(layer) + " of 2, head " +
                                       std::to_string(head) + " of 2"));
      ASSERT_GE(shown.size(), 8u);
      std::string digits;  // the row of "found", shades left out
      for (char c : shown[5].substr(shown[5].find("found") + 5)) digits += std::isdigit(uint8_t(c)) ? c : ' ';
      std::istringstream numbers(digits);
      std::string got;
      for (int n; numbers >> n;) got += std::to_string(n) + " ";
      EXPECT_EQ(got, percents(a["weights"][layer - 1][head - 1][2]));
    }
  EXPECT_TRUE(run({"attend", "-m", model.name(), "You"}).out.starts_with("layer 2 of 2, mean of 2 heads"));
}

TEST(Attend, WideTablesAreSplitToFit) {
  const ModelFolder model;
  std::string text;
  for (int i = 0; i < 25; ++i) text += "river ";
  for (const std::string width : {"40", "80", "120"}) {
    const Result r = run({"attend", "-m", model.name(), text}, {.environment = {{"COLUMNS", width}}});
    EXPECT_EQ(r.code, 0);
    for (const std::string& line : lines(r.out))
      EXPECT_TRUE(line.starts_with("layer") || line.find("from") != line.npos ||
                  columns(line) <= std::stoul(width))
          << line;
  }
}

TEST(Attend, TopListsTheTokensLookedAtMost) {
  const ModelFolder model;
  const json a = json::parse(run({"attend", "-m", model.name(), "--json", "You found me"}).out);
  const Result r =
      run({"attend", "-m", model.name(), "--layer", "1", "--head", "1", "--top", "1", "You found me"});
  const json& row = a["weights"][0][0][1];
  const size_t best = size_t(std::max_element(row.begin(), row.end()) - row.begin());
  const std::string line = lines(r.out)[3];
  EXPECT_TRUE(line.starts_with("  you ")) << line;
  EXPECT_NE(line.find(a["tokens"][best].get<std::string>(), 14), std::string::npos) << line;
}

TEST(Info, SaysWhatTheModelIs) {
  const ModelFolder model;
  const Result r = run({"info", model.name(), "--json"});
  EXPECT_EQ(r.code, 0) << r.err;
  const json info = json::parse(r.out);
  EXPECT_EQ(info["layers"], 2);
  EXPECT_EQ(info["hidden"], 64);
  EXPECT_EQ(info["heads"], 2);
  EXPECT_EQ(info["parameters"], bertie::Config::load(model.path()).parameters());
  EXPECT_EQ(info["max_length"], 33);
  EXPECT_EQ(info["tokenizer"]["cased"], false);
  EXPECT_EQ(info["files"]["model.safetensors"], fs::file_size(model / "model.safetensors"));
  EXPECT_TRUE(info["stored"].contains("F32"));
  const Result read = run({"info", "--model", model.name()});
  EXPECT_EQ(read.code, 0);
  EXPECT_NE(read.out.find("2 layers × 64 hidden × 2 heads"), std::string::npos) << read.out;
  EXPECT_NE(read.out.find("WordPiece, uncased"), std::string::npos);
}

TEST(Info, WorksWithoutATokenizer) {
  const Result r = run({"info", (source_dir() / "tests/golden/models/no_pooler").string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("no pooler"), std::string::npos);
  EXPECT_NE(r.out.find("none: no tokenizer.json"), std::string::npos);
}

TEST(Info, DescribesAModelWhoseHeadWorksThoughItsModulesDoNot) {
  const TemporaryFolder folder;
  const std::string model = folder / "model";
  fs::copy(source_dir() / "tests/golden/tasks/text-classification-bert", model, fs::copy_options::recursive);
  write_all(folder / "model/modules.json",
            R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Strange"}])");
  EXPECT_EQ(run({"classify", "-m", model, "you"}).code, 0);
  const Result r = run({"info", model});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("none: "), std::string::npos) << r.out;
  EXPECT_NE(json::parse(run({"info", "--json", model}).out)["no_vectors"], "");
  EXPECT_EQ(run({"info", "--strict", model}).code, 1);
}

TEST(Info, TellsAnEncoderDecoderFromModelsOfOneSide) {
  const std::string name = source_dir() / "tests/golden/families/marian-seq2seq-1";
  const Result r = run({"info", name});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("an encoder and a decoder"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("2 layers × 30 hidden × 3 heads, feed-forward 40 (swish)"), std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("1 layers × 30 hidden × 5 heads, feed-forward 45 (swish)"), std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("BF16"), std::string::npos) << r.out;
  const json info = json::parse(run({"info", name, "--json"}).out);
  EXPECT_EQ(info["kind"], "encoder-decoder");
  EXPECT_EQ(info["decoder"]["heads"], 5);
  EXPECT_EQ(info["files"]["model.safetensors"], fs::file_size(fs::path(name) / "model.safetensors"));
  size_t stored = 0;
  for (const auto& [dtype, count] : info["stored"].items()) stored += count.get<size_t>();
  EXPECT_EQ(info["parameters"], stored);
}

TEST(Bench, OneMeasurementComesAsOneJsonLine) {
  const Result r = run({"bench", "encode", "--model", "minilm", "--shape", "1x8", "--threads", "1",
                        "--seconds", "0.05", "--json"});
  EXPECT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> all = lines(r.out);
  ASSERT_EQ(all.size(), 2u) << "fp32 and int8";
  for (size_t i = 0; i < 2; ++i) {
    const json measured = json::parse(all[i]);
    EXPECT_EQ(measured["precision"], i == 0 ? "fp32" : "int8");
    EXPECT_EQ(measured["shape"], "1x8");
    EXPECT_EQ(measured["threads"], 1);
    EXPECT_GT(measured["gflops"].get<double>(), 0);
    EXPECT_GT(measured["fraction"].get<double>(), 0);
    EXPECT_TRUE(std::isfinite(measured["fraction"].get<double>()));  // of a peak that a busy machine may move
    EXPECT_GE(measured["p99_milliseconds"].get<double>(), measured["median_milliseconds"].get<double>());
  }
  EXPECT_LT(json::parse(all[1])["megabytes"].get<double>(),
            0.35 * json::parse(all[0])["megabytes"].get<double>());
}

TEST(MiniLM, CommandsWorkOnARealModel) {
  const fs::path model = data("models/all-MiniLM-L6-v2");
  BERTIE_NEEDS(model);
  const std::string name = model.string();
  EXPECT_EQ(run({"tokenize", "-m", name, "--ids", "You found me."}).out, "101 2017 2179 2033 1012 102\n");
  EXPECT_EQ(json::parse(run({"info", name, "--json"}).out)["parameters"], 22713216);
  EXPECT_EQ(vectors(run({"embed", "-m", name, "hello world"}).out)[0].size(), 384u);
  const json a = json::parse(
      run({"attend", "-m", name, "--json", "The bank deposited the money near the river bank."}).out);
  EXPECT_EQ(a["shape"], json::parse("[6,12,12,12]"));
}

TEST(CliIndex, IsMadeGoneOnWithAndSearched) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return (folder / name).string(); };
  bertie::write_file(at("texts"), "you found me\nthe bank\n\nof a river\n");
  const Result made = run({"index", "-m", model.name(), at("library"), "--file", at("texts")});
  ASSERT_EQ(made.code, 0) << made.err;
  // By the name of its model, which the index knows.
  const Result found =
      run({"similar", "--index", at("library"), "--query", "the bank", "--top", "2", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  const json best = json::parse(found.out.substr(0, found.out.find('\n')));
  EXPECT_EQ(best["text"], "the bank");
  EXPECT_EQ(best["index"], 1);
  EXPECT_EQ(best["query"], 0);
  EXPECT_NEAR(best["score"].get<double>(), 1, 1e-3);
  const Result two = run({"similar", "--index", at("library"), "--top", "1", "of a river", "you found me"});
  EXPECT_NE(two.out.find("of a river"), std::string::npos) << two.out;

  EXPECT_NE(run({"index", "-m", model.name(), at("library"), "--file", at("texts")}).code, 0)
      << "it is there";
  EXPECT_EQ(run({"index", "--file", at("texts")}).code, 2) << "no folder";
  EXPECT_EQ(run({"similar", "--index", at("library"), "--pooling", "max", "--query", "x"}).code, 2)
      << "not as it was made";
  EXPECT_EQ(run({"similar", "--index", at("library"), "--prefix", "x", "--query", "x"}).code, 2);
  EXPECT_NE(run({"similar", "--index", at("nothing"), "--query", "x"}).err.find("bertie index"),
            std::string::npos);
}

TEST(CliIndex, ResumesToTheSameBytesAndOnTheSameTextsAlone) {
  const ModelFolder model;
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return (folder / name).string(); };
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += i % 3 ? "{\"text\": \"you\"}\n" : "{\"text\": \"the bank\"}\n";
  bertie::write_file(at("texts.jsonl"), texts + "{\"nothing\": 1}\n{\"text\": \"me\"}\n");
  const auto index = [&](const char* to, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"index", "-m", model.name(), at(to), "--file", at("texts.jsonl")});
    return run(more);
  };
  const std::vector<const char*> names = {"/index.json", "/vectors.npy", "/ends.npy", "/texts"};
  EXPECT_EQ(index("whole").code, 1) << "a text could not be used";
  const Result cut_off = index("part", {"--strict", "-t", "1"});
  EXPECT_EQ(cut_off.code, 1);
  EXPECT_NE(cut_off.err.find("--resume"), std::string::npos) << cut_off.err;
  fs::copy(at("part"), at("begun"));
  for (const size_t lost : {0, 1, 1000, 10000}) {  // of the vectors, as if they had not come to the disk
    fs::remove_all(at("part"));
    fs::copy(at("begun"), at("part"));
    fs::resize_file(at("part") + "/vectors.npy", fs::file_size(at("part") + "/vectors.npy") - lost);
    const Result r = index("part", {"--resume"});
    EXPECT_EQ(r.code, 1) << r.err;
    for (const char* name : names)
      EXPECT_EQ(read_all(at("part") + name), read_all(at("whole") + name)) << lost << name << r.err;
  }
  for (const std::string& other : {std::string("{\"text\": \"you\"}\n"), "{\"text\": \"me\"}\n" + texts}) {
    fs::remove_all(at("part"));
    fs::copy(at("begun"), at("part"));
    bertie::write_file(at("texts.jsonl"), other);
    const Result r = index("part", {"--resume"});
    EXPECT_NE(r.code, 0) << other.substr(0, 20);
    EXPECT_NE(r.err.find("not the texts"), std::string::npos) << r.err;
  }
}

TEST(CliEmbed, TakesPoolingPrefixAndWindows) {
  const ModelFolder model;
  const bertie::TextModel encoder = bertie::load(model.name());
  const auto first = [](const Result& r) { return json::parse(r.out)["vector"].get<std::vector<float>>(); };
  EXPECT_EQ(first(run({"embed", "-m", model.name(), "--prefix", "you ", "found"})),
            encoder.embed("you found").values);
  const bertie::TextModel cls =
      encoder.with_pooling({.cls = true, .mean = false, .normalize = encoder.pooling().normalize});
  EXPECT_EQ(first(run({"embed", "-m", model.name(), "--pooling", "cls", "you"})), cls.embed("you").values);
  const Result r =
      run({"embed", "-m", model.name(), "--max-length", "4", "--windows", "you found me the bank"});
  EXPECT_EQ(json::parse(r.out)["windows"], 3) << r.out;
  EXPECT_EQ(json::parse(r.out)["truncated"], false);
}

}  // namespace
