#include "train/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "core/in_order.h"
#include "core/parallel.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "text/unicode.h"
#include "train/sentences.h"
#include "train/shard.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kJobBytes = size_t{1} << 19;  // of text that a thread takes at a time
constexpr uint32_t kMaxSentence = 1024;        // tokens; a longer one goes on as another
constexpr const char* kManifest = "shards.json";

// Some documents on their way: texts, then tokens.
struct Job {
  struct Document {
    Part part;
    uint64_t checksum;
    size_t text_begin, text_end;
    size_t sentences_end = 0, tokens_end = 0;
    uint64_t unknown = 0;
  };
  std::string text;
  std::vector<Document> documents;
  std::vector<uint32_t> sentences;
  std::vector<int32_t> tokens;
  std::vector<Sentence> places;
  Encoding encoding;
};

// Sentences of a paragraph are cut out of the tokens of the whole of it: a piece of byte-level BPE depends on
// the space before it.
void add_paragraph(std::string_view paragraph, const Tokenizer& tokenizer, Job& job) {
  split_sentences(paragraph, job.places);
  tokenizer.encode_into(paragraph, {.add_special_tokens = false, .special_tokens_in_text = false},
                        job.encoding);
  const auto& ids = job.encoding.ids;
  const auto& offsets = job.encoding.offsets;
  size_t token = 0, bytes = 0;
  uint32_t points = 0;  // of the paragraph before `bytes`
  for (size_t s = 0; s < job.places.size(); ++s) {
    const size_t begin = token;
    if (s + 1 == job.places.size()) {
      token = ids.size();
    } else {
      const size_t next = job.places[s + 1].begin;
      points += uint32_t(text::count_points(paragraph.substr(bytes, next - bytes)));
      bytes = next;
      while (token < ids.size() && offsets[token].end <= points) ++token;
    }
    for (size_t left = token - begin; left > 0;) {
      const auto length = uint32_t(std::min<size_t>(left, kMaxSentence));
      job.sentences.push_back(length);
      left -= length;
    }
  }
  job.tokens.insert(job.tokens.end(), ids.begin(), ids.end());
}

void tokenize(const Tokenizer& tokenizer, Job& job) {
  job.sentences.clear();
  job.tokens.clear();
  for (Job::Document& document : job.documents) {
    const size_t first = job.tokens.size();
    for (size_t begin = document.text_begin; begin < document.text_end;) {
      const size_t end = std::min(job.text.find('\n', begin), document.text_end);
      add_paragraph(std::string_view(job.text).substr(begin, end - begin), tokenizer, job);
      begin = end + 1;
    }
    document.sentences_end = job.sentences.size();
    document.tokens_end = job.tokens.size();
    document.unknown =
        uint64_t(std::count(job.tokens.begin() + ptrdiff_t(first), job.tokens.end(), tokenizer.unk_id()));
  }
}

void write_file(const fs::path& path, std::string_view text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}

// The files that make a tokenizer, under the names by which Tokenizer::load finds them; and those beside
// them.
constexpr std::string_view kTokenizerFiles[] = {"tokenizer.json", "vocab.txt",    "vocab.json",
                                                "merges.txt",     "spiece.model", "sentencepiece.bpe.model"};
constexpr std::string_view kBesideTokenizer[] = {"tokenizer_config.json", "special_tokens_map.json",
                                                 "added_tokens.json"};

bool is_shard_name(std::string_view name) {
  for (const std::string_view part : {"train-", "held-out-"}) {
    if (!name.starts_with(part) || !name.ends_with(".tokens")) continue;
    const std::string_view number = name.substr(part.size(), name.size() - part.size() - 7);
    return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  }
  return false;
}

// What a killed run left of a file: its name, a point and six letters (io/atomic_file.h).
bool is_left_over(std::string_view name) {
  if (name.size() < 8 || name[name.size() - 7] != '.') return false;
  const std::string_view whole = name.substr(0, name.size() - 7);
  return is_shard_name(whole) || whole == kManifest ||
         std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), whole) !=
             std::end(kTokenizerFiles) ||
         std::find(std::begin(kBesideTokenizer), std::end(kBesideTokenizer), whole) !=
             std::end(kBesideTokenizer);
}

void remove_files(const fs::path& folder, bool (*which)(std::string_view name)) {
  std::vector<fs::path> gone;
  for (const auto& entry : fs::directory_iterator(folder))
    if (which(entry.path().filename().string())) gone.push_back(entry.path());
  for (const fs::path& path : gone) fs::remove(path);
}

// One side of the corpus: the shards that are there, and the one in the making.
class Side {
 public:
  Side(Part part, const fs::path& folder, const Fingerprint& fingerprint, uint64_t vocab_size)
      : part_(part), folder_(folder), builder_(part, fingerprint, vocab_size) {
    // The whole shards from the first one on; what comes after a gap is made again.
    for (std::error_code error; fs::exists(folder_ / shard_name(part, kept_.size()), error);) {
      try {
        const Shard shard(folder_ / shard_name(part, kept_.size()));
        shard.verify();
        const ShardHeader& h = shard.header();
        if (h.fingerprint != fingerprint || h.part != uint32_t(part) || h.index != kept_.size()) break;
        kept_.push_back(h);
      } catch (const Error&) {
        break;
      }
    }
    builder_.start_at(kept_.size());
  }

  // A document was read. Whether it is in a shard already; Error where that one is of another text.
  bool skip(uint64_t checksum) {
    if (skipping_ == kept_.size()) return false;
    sum_ = io::chain(sum_, checksum);
    const ShardHeader& h = kept_[skipping_];
    if (++skipped_ < h.documents) return true;
    if (sum_ != h.text_checksum)
      throw Error(fmt::format("{} was made from another text than the one given now",
                              (folder_ / shard_name(part_, skipping_)).string()),
                  "--force makes all shards anew; or give another folder with --out");
    ++skipping_, skipped_ = 0, sum_ = 0;
    return true;
  }
  void add(const ShardBuilder::Document& document, size_t shard_bytes) {
    builder_.add(document);
    if (builder_.bytes() >= shard_bytes) builder_.write(folder_);
  }
  PartSummary finish() {
    if (skipping_ < kept_.size())
      throw Error(fmt::format("the text given now ends before {} does",
                              (folder_ / shard_name(part_, skipping_)).string()),
                  "--force makes all shards anew; or give another folder with --out");
    if (!builder_.empty()) builder_.write(folder_);
    PartSummary sum{.shards = builder_.index()};
    for (size_t i = 0; i < sum.shards; ++i) {
      const fs::path path = folder_ / shard_name(part_, i);
      const ShardHeader h = Shard(path).header();
      sum.documents += h.documents, sum.sentences += h.sentences, sum.tokens += h.tokens;
      sum.unknown += h.unknown, sum.text_bytes += h.text_bytes;
      sum.file_bytes += fs::file_size(path);
    }
    return sum;
  }
  size_t kept() const { return kept_.size(); }

 private:
  Part part_;
  fs::path folder_;
  ShardBuilder builder_;
  std::vector<ShardHeader> kept_;
  size_t skipping_ = 0;   // the kept shard whose documents go by
  uint64_t skipped_ = 0;  // of them
  uint64_t sum_ = 0;
};

// By what is in a document, so the same text is never on both sides.
Part part_of(uint64_t checksum, double held_out) {
  return double(io::chain(0x68656C64, checksum) >> 11) * 0x1p-53 < held_out ? Part::kHeldOut : Part::kTrain;
}

nlohmann::ordered_json summary_json(const PartSummary& part) {
  return {{"shards", part.shards},        {"documents", part.documents}, {"sentences", part.sentences},
          {"tokens", part.tokens},        {"unknown", part.unknown},     {"text_bytes", part.text_bytes},
          {"file_bytes", part.file_bytes}};
}

nlohmann::ordered_json settings_json(const PrepareOptions& options, const Corpus& corpus,
                                     const Fingerprint& fingerprint) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const Corpus::File& file : corpus.files())
    inputs.push_back({{"name", fs::path(file.path).filename().string()}, {"bytes", file.bytes}});
  return {{"format", ShardHeader::kVersion},
          {"tokenizer", fmt::format("{:02x}", fmt::join(fingerprint, ""))},
          {"inputs", inputs},
          {"field", options.corpus.field},
          {"held_out", options.held_out},
          {"shard_bytes", options.shard_bytes}};
}

// So that Tokenizer::load(out) gives the tokenizer of the shards.
void copy_tokenizer(const PrepareOptions& options) {
  std::error_code error;
  const fs::path given = options.tokenizer;
  const fs::path file = fs::is_directory(given, error) ? Tokenizer::file_in(given) : given;
  const auto copy = [&](const fs::path& from, const std::string& name) {
    if (!fs::exists(from, error) || fs::equivalent(from, options.out / name, error)) return;
    write_file(options.out / name, io::MappedFile(from).text());
  };
  std::string name = file.filename().string();
  if (std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), name) == std::end(kTokenizerFiles))
    name = file.extension() == ".json" ? "tokenizer.json" : "vocab.txt";
  copy(file, name);
  if (options.cased) {
    write_file(options.out / "tokenizer_config.json",
               "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": false}\n");
    return;
  }
  if (name == "vocab.json") copy(file.parent_path() / "merges.txt", "merges.txt");
  if (name == "merges.txt") copy(file.parent_path() / "vocab.json", "vocab.json");
  for (const std::string_view beside : kBesideTokenizer)
    copy(file.parent_path() / beside, std::string(beside));
}

}  // namespace

Prepared prepare(const PrepareOptions& options) {
  const Tokenizer tokenizer = options.cased ? Tokenizer::from_vocab(options.tokenizer, {.lowercase = false})
                                            : Tokenizer::load(options.tokenizer);
  const Fingerprint fingerprint = fingerprint_of(tokenizer);
  Corpus corpus(options.corpus);

  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) throw Error(fmt::format("cannot make the folder {}: {}", options.out.string(), error.message()));
  const nlohmann::ordered_json settings = settings_json(options, corpus, fingerprint);
  const fs::path manifest = options.out / kManifest;
  if (options.force) remove_files(options.out, is_shard_name);
  if (fs::exists(manifest, error) && !options.force) {
    const nlohmann::json there = io::parse_json(io::MappedFile(manifest).text(), manifest.string());
    if (!there.contains("settings") || nlohmann::json(settings) != there["settings"])
      throw Error(fmt::format("{} has shards of other texts, another tokenizer or other settings",
                              options.out.string()),
                  "--force makes them anew; or give another folder with --out");
  } else if (fs::exists(options.out / shard_name(Part::kTrain, 0), error)) {
    throw Error(fmt::format("{} has shards, but no {}", options.out.string(), kManifest),
                "--force makes them anew; or give another folder with --out");
  }
  remove_files(options.out, is_left_over);
  const auto write_manifest = [&](const nlohmann::ordered_json& json) {
    write_file(manifest, json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  };
  write_manifest({{"settings", settings}, {"complete", false}});
  copy_tokenizer(options);

  Side sides[] = {Side(Part::kTrain, options.out, fingerprint, tokenizer.vocab_size()),
                  Side(Part::kHeldOut, options.out, fingerprint, tokenizer.vocab_size())};
  Prepared prepared;
  prepared.kept_shards = sides[0].kept() + sides[1].kept();
  std::string document;
  const auto read = [&](Job& job) {
    job.text.clear();
    job.documents.clear();
    while (job.text.size() < kJobBytes && corpus.next(document)) {
      const uint64_t checksum = io::checksum(document);
      const Part part = part_of(checksum, options.held_out);
      if (sides[size_t(part)].skip(checksum)) continue;
      const size_t begin = job.text.size();
      job.text += document;
      job.documents.push_back({part, checksum, begin, job.text.size()});
    }
    if (options.progress) options.progress(corpus.done(), corpus.total(), prepared.tokenized_bytes);
    prepared.tokenized_bytes += job.text.size();
    return !job.documents.empty();
  };
  const auto finish = [&](Job& job) {
    size_t sentence = 0, token = 0;
    for (const Job::Document& d : job.documents) {
      sides[size_t(d.part)].add(
          {.sentences = std::span(job.sentences).subspan(sentence, d.sentences_end - sentence),
           .tokens = std::span(job.tokens).subspan(token, d.tokens_end - token),
           .unknown = d.unknown,
           .text_bytes = d.text_end - d.text_begin,
           .text_checksum = d.checksum},
          options.shard_bytes);
      sentence = d.sentences_end, token = d.tokens_end;
    }
  };
  in_order<Job>(
      options.threads > 0 ? options.threads : available_threads(), read,
      [&](Job& job) { tokenize(tokenizer, job); }, finish);

  prepared.train = sides[0].finish();
  prepared.held_out = sides[1].finish();
  if (prepared.train.documents + prepared.held_out.documents == 0)
    throw Error("there is no text in what was given", "a document is lines of text; an empty line ends it");
  write_manifest({{"settings", settings},
                  {"complete", true},
                  {"train", summary_json(prepared.train)},
                  {"held_out", summary_json(prepared.held_out)}});
  return prepared;
}

}  // namespace bertie
