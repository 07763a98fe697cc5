// Text to shards of tokens.
//
// Documents are read in order, split into sentences and tokenized in parallel, and written in order, so the
// files are the same bytes for any number of threads. Shards appear whole, one after the other. A run that
// was stopped continues where its last whole shard ends: it reads the text again (which is fast) and
// tokenizes the rest; a checksum in each shard shows whether the text is still the one it was made from.
//
// Files are made in a folder of their own, .bertie-unfinished, and moved beside the others when they are
// whole, so what a killed run left is known by where it is. One process at a time prepares in a folder.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "bertie/data.h"
#include "bertie/error.h"
#include "core/in_order.h"
#include "core/parallel.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "text/unicode/unicode.h"
#include "train/data/corpus.h"
#include "train/data/sentences.h"
#include "train/data/shard_folder.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kJobBytes = size_t{1} << 19;  // of text that a thread takes at a time
constexpr uint32_t kMaxSentence = 1024;        // tokens; a longer one is split
// More threads would wait for the one that reads, and memory is bounded by as many jobs.
constexpr int kMostThreads = 32;
constexpr const char* kStartOver = "`force` makes all shards anew; or another `out`";
constexpr const char* kUnfinished = ".bertie-unfinished";

// Some documents: texts, then tokens.
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

// The folder that the shards go to, and the one inside it where files are made.
class OutFolder {
 public:
  explicit OutFolder(const fs::path& path) : path_(path) {
    fs::create_directories(path_);
    lock_.emplace(path_);
    if (lock_->taken())
      throw Error(fmt::format("another process prepares data in {}", path_.string()),
                  "wait for it, or another `out`", "out");
    fs::remove_all(path_ / kUnfinished);
  }
  ~OutFolder() {
    std::error_code ignored;
    fs::remove_all(path_ / kUnfinished, ignored);
  }

  const fs::path& path() const { return path_; }
  void write(const std::string& name, std::string_view text) const {
    make(name, [&](const fs::path& folder) {
      io::AtomicFile file(folder / name);
      file.write(text);
      file.commit();
    });
  }
  void write(ShardBuilder& builder, Part part) const {
    make(shard_name(part, builder.index()), [&](const fs::path& folder) { builder.write(folder); });
  }
  void remove(bool (*which)(std::string_view name)) const {
    std::vector<fs::path> gone;
    for (const auto& entry : fs::directory_iterator(path_))
      if (which(entry.path().filename().string())) gone.push_back(entry.path());
    for (const fs::path& path : gone) fs::remove(path);
  }

 private:
  template <class Make>
  void make(const std::string& name, const Make& make_in) const {
    fs::create_directory(path_ / kUnfinished);
    make_in(path_ / kUnfinished);
    fs::rename(path_ / kUnfinished / name, path_ / name);
    io::sync_folder(path_);
  }

  fs::path path_;
  std::optional<io::FolderLock> lock_;
};

// The training or the held-out part: the shards that are there, and the one being made.
class Side {
 public:
  Side(Part part, const OutFolder& out, const Fingerprint& fingerprint, uint64_t vocab_size)
      : part_(part), out_(out), builder_(part, fingerprint, vocab_size) {
    // Keeps the whole shards from the first one on; what comes after a gap is made again.
    for (std::error_code error; fs::exists(path_of(kept_.size()), error);) {
      try {
        const Shard shard(path_of(kept_.size()));
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

  // Whether the document that was read is in a shard already; Error where that shard is of another text.
  bool skip(uint64_t checksum) {
    if (skipping_ == kept_.size()) return false;
    sum_ = io::chain(sum_, checksum);
    const ShardHeader& h = kept_[skipping_];
    if (++skipped_ < h.documents) return true;
    if (sum_ != h.text_checksum)
      throw Error(
          fmt::format("{} was made from another text than the one given now", path_of(skipping_).string()),
          kStartOver, "out");
    ++skipping_, skipped_ = 0, sum_ = 0;
    return true;
  }
  void add(const ShardBuilder::Document& document, size_t shard_bytes) {
    builder_.add(document);
    if (builder_.bytes() >= shard_bytes) out_.write(builder_, part_);
  }
  PartSummary finish() {
    if (skipping_ < kept_.size())
      throw Error(fmt::format("the text given now ends before {} does", path_of(skipping_).string()),
                  kStartOver, "out");
    if (!builder_.empty()) out_.write(builder_, part_);
    PartSummary sum;
    while (sum.shards < builder_.index()) {
      const fs::path path = path_of(sum.shards);
      bertie::add(Shard(path).header(), fs::file_size(path), sum);
    }
    return sum;
  }
  size_t kept() const { return kept_.size(); }

 private:
  fs::path path_of(size_t index) const { return out_.path() / shard_name(part_, index); }

  Part part_;
  const OutFolder& out_;
  ShardBuilder builder_;
  std::vector<ShardHeader> kept_;
  size_t skipping_ = 0;   // the kept shard whose documents are being read
  uint64_t skipped_ = 0;  // of them
  uint64_t sum_ = 0;
};

// By a document's content, so that the same text is never in both.
Part part_of(uint64_t checksum, double held_out) {
  return double(io::chain(0x68656C64, checksum) >> 11) * 0x1p-53 < held_out ? Part::kHeldOut : Part::kTrain;
}

nlohmann::ordered_json settings_json(const PrepareOptions& options, const Corpus& corpus,
                                     const Fingerprint& fingerprint) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const Corpus::File& file : corpus.files())
    inputs.push_back({{"name", fs::path(file.path).filename().string()}, {"bytes", file.bytes}});
  return {{"format", ShardHeader::kVersion},
          {"tokenizer", fmt::format("{:02x}", fmt::join(fingerprint, ""))},
          {"inputs", inputs},
          {"field", options.texts.field},
          {"held_out", options.held_out},
          {"shard_bytes", options.shard_bytes}};
}

// What to write so that Tokenizer::load(out) gives the tokenizer of the shards.
class TokenizerCopy {
 public:
  TokenizerCopy(const PrepareOptions& options, const OutFolder& out) : out_(out) {
    std::error_code error;
    const ModelFiles& given = options.tokenizer;
    const fs::path file = Tokenizer::file_in(given);
    const auto add = [&](std::string_view from, const std::string& name) {
      if (given.has(from)) files_[name] = given.read(from).text();
    };
    std::string name = file.string();
    if (name != io::kMergesFile &&
        std::ranges::find(io::kTokenizerFiles, name) == std::end(io::kTokenizerFiles))
      name = file.extension() == ".json" ? io::kTokenizerFile : io::kWordPieceFile;
    add(file.string(), name);
    if (options.cased) {
      files_[std::string(io::kTokenizerConfigFile)] =
          "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": false}\n";
    } else {
      if (name == io::kMergesFile) add(io::kBpeFile, std::string(io::kBpeFile));
      for (const std::string_view other : io::kTokenizerCompanions)
        if (other != io::kMergesFile || name == io::kBpeFile) add(other, std::string(other));
    }
    const std::optional<fs::path> beside = given.folder();
    remove_others(options.force,
                  beside && fs::equivalent(beside->empty() ? fs::path(".") : *beside, out.path(), error));
    for (const auto& [own, text] : files_)
      if (is_own(own) || !fs::exists(out.path() / own)) written_.push_back(own);
  }

  // The names of those that are not somebody else's.
  const std::vector<std::string>& written() const { return written_; }
  void write(const Fingerprint& fingerprint) const {
    for (const std::string& name : written_) out_.write(name, files_.at(name));
    if (fingerprint_of(Tokenizer::load(out_.path())) != fingerprint)
      refuse(Tokenizer::file_in(out_.path()), false);
  }

 private:
  bool is_own(const std::string& name) const { return std::ranges::find(own_, name) != own_.end(); }
  [[noreturn]] void refuse(const std::string& file, bool removable) const {
    throw Error(fmt::format("{} has files of another tokenizer, such as {}", out_.path().string(), file),
                removable ? "`force` removes them; or another `out`" : "another `out`", "out");
  }
  // Those of an earlier run, where `force` says so. All others stay, and then this run does not begin.
  void remove_others(bool force, bool among_them) {
    try {
      own_ = read_manifest(out_.path()).tokenizer_files;
    } catch (const Error&) {  // none, or a broken one: nothing is known to be ours
    }
    std::vector<std::string> others;
    for (const std::string& name : tokenizer_files_in(out_.path())) {
      const auto mine = files_.find(name);
      if (mine == files_.end() ? !among_them : io::MappedFile(out_.path() / name).text() != mine->second)
        others.push_back(name);
    }
    for (const std::string& name : others)
      if (!force || !is_own(name)) refuse(name, is_own(name));
    for (const std::string& name : others) fs::remove(out_.path() / name);
  }

  const OutFolder& out_;
  std::map<std::string, std::string> files_;
  std::vector<std::string> own_, written_;
};

// Error where a text is among the files that will be written or removed.
void check_not_read(const OutFolder& out, const Corpus& corpus) {
  for (const Corpus::File& file : corpus.files()) {
    const fs::path path(file.path);
    const std::string name = path.filename().string();
    std::error_code error;
    if ((name == ShardManifest::kName || is_shard_name(name)) &&
        fs::equivalent(path, out.path() / name, error))
      throw Error(fmt::format("{} would be read and written over", file.path), "another `out`", "out");
  }
}

// Error where the folder has shards that this run cannot continue, or a file of another's under the name of
// their list.
void check_shards(const OutFolder& out, const std::string& settings) {
  const fs::path list = out.path() / ShardManifest::kName;
  if (!has_shards(out.path())) {
    if (!fs::exists(list)) return;
    try {
      return (void)read_manifest(out.path());
    } catch (const Error&) {
      throw Error(fmt::format("{} is there already, and is not a list of shards", list.string()),
                  "`force` replaces it; or another `out`", "out");
    }
  }
  if (!fs::exists(list))
    throw Error(fmt::format("{} has shards, but no {}", out.path().string(), ShardManifest::kName),
                kStartOver, "out");
  if (io::parse_json(read_manifest(out.path()).settings, ShardManifest::kName) !=
      io::parse_json(settings, "settings"))
    throw Error(
        fmt::format("{} has shards of other texts, another tokenizer or other settings", out.path().string()),
        kStartOver, "out");
}

Tokenizer tokenizer_of(const PrepareOptions& options) {
  const ModelFiles& given = options.tokenizer;
  const std::string file = Tokenizer::file_in(given);
  if (!options.cased || file.empty() || !given.folder()) return Tokenizer::load(given);
  return Tokenizer::from_vocab(*given.folder() / file, {.lowercase = false});
}

Prepared prepare_into(const PrepareOptions& options) {
  if (!(options.held_out >= 0 && options.held_out < 1))
    throw Error(fmt::format("`held_out` {} is not a share, from 0 to less than 1", options.held_out),
                "`held_out` 0.01", "held_out");
  const Tokenizer tokenizer = tokenizer_of(options);
  const Fingerprint fingerprint = fingerprint_of(tokenizer);
  Corpus corpus(options.texts);

  const OutFolder out(options.out);
  check_not_read(out, corpus);
  // File names may be any bytes.
  ShardManifest manifest{.settings = settings_json(options, corpus, fingerprint)
                                         .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  if (!options.force) check_shards(out, manifest.settings);
  const TokenizerCopy copy(options, out);
  manifest.tokenizer_files = copy.written();
  if (options.force) out.remove(is_shard_name);
  // Where there are shards their manifest stays: a complete one counts those that are missing now.
  if (!has_shards(out.path())) out.write(ShardManifest::kName, manifest.text());
  copy.write(fingerprint);

  Side sides[] = {Side(Part::kTrain, out, fingerprint, tokenizer.vocab_size()),
                  Side(Part::kHeldOut, out, fingerprint, tokenizer.vocab_size())};
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
    if (options.texts.progress)
      options.texts.progress(corpus.done(), corpus.total(), prepared.tokenized_bytes);
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
      std::min(options.threads > 0 ? options.threads : available_threads(), kMostThreads), read,
      [&](Job& job) { tokenize(tokenizer, job); }, finish);

  manifest.train = prepared.train = sides[0].finish();
  manifest.held_out = prepared.held_out = sides[1].finish();
  if (prepared.train.documents + prepared.held_out.documents == 0)
    throw Error("there is no text in the inputs", "a document is lines of text; an empty line ends it",
                "inputs");
  prepared.texts = corpus.report();
  manifest.complete = true;
  out.write(ShardManifest::kName, manifest.text());
  return prepared;
}

}  // namespace

Prepared prepare(const PrepareOptions& options) {
  try {
    return prepare_into(options);
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("cannot write {}: {}", options.out.string(), error.code().message()),
                "another `out`, or make room in it", "out");
  }
}

}  // namespace bertie
