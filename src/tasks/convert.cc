#include "bertie/convert.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "bertie/tokenizer.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/onnx.h"
#include "io/safetensors_writer.h"
#include "model/rename.h"
#include "model/weights.h"
#include "tasks/modules.h"
#include "tasks/new_folder.h"
#include "tasks/tensor_input.h"

namespace bertie {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// A folder for a while.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const fs::path all = fs::temp_directory_path();
    std::string name = (all / "bertie-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw Error(
          fmt::format("cannot make a folder in {}: {}", all.string(), std::generic_category().message(errno)),
          "another TMPDIR");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void unpack(const ModelFiles& files, const fs::path& into) {
  for (const std::string& file : files.list()) {
    fs::create_directories((into / file).parent_path());
    io::AtomicFile out(into / file);
    out.write(files.read(file).text());
    out.commit();
  }
}

// One tensor on its way: what it was, and what it will be.
struct Job {
  const InputTensor* input;
  std::string name;
  std::vector<size_t> shape;
  bool transposed = false;
  io::DType dtype{};
  std::span<const int32_t> rows = {};  // of the old tensor that the new one has; empty: all

  size_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies());
  }
};

// Rows of a tensor, or numbers of a vector.
std::vector<float> rows_of(const std::vector<float>& all, std::span<const int32_t> rows, size_t width) {
  std::vector<float> out;
  out.reserve(rows.size() * width);
  for (const int32_t row : rows)
    out.insert(out.end(), all.begin() + ptrdiff_t(size_t(row) * width),
               all.begin() + ptrdiff_t(size_t(row + 1) * width));
  return out;
}

class Converter {
 public:
  explicit Converter(const ConvertOptions& options) : c_(options) {
    constexpr io::DType kTypes[] = {io::DType::kF32, io::DType::kF16, io::DType::kBF16};
    if (c_.precision) dtype_ = kTypes[size_t(*c_.precision)];
  }

  Conversion run() {
    std::error_code error;
    find_checkpoint();
    if (!fs::exists(c_.from, error)) {
      const ModelFiles files(c_.from.string());
      if (!files.folder()) return run_unpacked(files);
      c_.from = *files.folder();
    }
    if (fs::is_directory(c_.from, error)) source_ = c_.from;
    tensors_at_ = c_.from;
    if (!source_.empty())
      if (const std::string below = io::transformer_folder(source_); !below.empty())
        tensors_at_ = source_ / below;
    beside_ = source_.empty() ? c_.from.parent_path() : tensors_at_;
    if (beside_.empty()) beside_ = ".";
    // onnx/model.onnx and variables/variables.index are in a folder of their own, below the rest.
    const bool in_own_folder = source_.empty() && (io::is_onnx_file(c_.from.string()) ||
                                                   fs::absolute(beside_).filename() == "variables");
    if (in_own_folder && !ModelFiles(beside_).is_model()) beside_ /= "..";
    refuse_own_folder();
    if (!c_.vocabulary.empty()) choose_tokens();
    inputs_ = open_tensors(tensors_at_);
    if (c_.progress) c_.progress(0, 0);  // whoever gave up meanwhile need not wait for a folder
    NewFolder folder(c_.to, c_.force);
    // A sentence-transformers model may keep its transformer in a folder below.
    fs::path below = source_.empty() ? fs::path() : tensors_at_.lexically_relative(source_);
    if (below == ".") below.clear();
    const fs::path model = below.empty() ? folder.path() : folder.path() / below;
    fs::create_directories(model);
    write_config(model);
    in_users_words(model, [&] { plan(Config::load(model), (model / io::kConfigFile).string()); });
    write_tensors(model / io::kWeightsFile);
    in_users_words(model, [&] { check_checkpoint(model); });
    copy_others(folder.path(), model);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file())
        result_.files.push_back(entry.path().lexically_relative(folder.path()).string());
    std::sort(result_.files.begin(), result_.files.end());
    folder.commit();
    return std::move(result_);
  }

 private:
  // A TensorFlow checkpoint is known by what its files' names have in common: model.ckpt, of
  // model.ckpt.index.
  void find_checkpoint() {
    std::error_code error;
    if (fs::is_directory(c_.from, error)) return;
    const std::string given = c_.from.filename().string();
    std::string prefix = given.substr(0, given.rfind(".data-"));
    if (prefix.ends_with(".meta")) prefix.resize(prefix.size() - 5);
    const fs::path index = c_.from.parent_path() / (prefix + ".index");
    const bool is_part = prefix != given || !fs::exists(c_.from, error);
    if (is_part && fs::is_regular_file(index, error)) c_.from = index;
  }

  // Of a model that is part of the program. Errors are about that, and not about where its files were put.
  Conversion run_unpacked(const ModelFiles& files) {
    const TemporaryFolder folder;
    unpack(files, folder.path());
    c_.from = folder.path();
    try {
      return run();
    } catch (const Error& error) {
      std::string what = error.what();
      if (const size_t at = what.find(folder.path().string()); at != what.npos)
        what.replace(at, folder.path().string().size(), files.name());
      throw Error(what, error.hint(), error.field());
    }
  }

  // What is wrong with the new folder is wrong with the files that it was made from: those are named.
  void in_users_words(const fs::path& model, const std::function<void()>& look) const {
    try {
      look();
    } catch (const Error& error) {
      std::string what = error.what();
      for (const auto& [ours, theirs] : {std::pair(model / io::kConfigFile, config_at_),
                                         {model / io::kWeightsFile, c_.from},
                                         {model, c_.from}})
        if (const size_t at = what.find(ours.string()); at != what.npos)
          what = what.substr(0, at) + theirs.string() + what.substr(at + ours.string().size());
      throw Error(what, error.hint());
    }
  }

  // Replacing the folder that is read would throw away what is not copied.
  void refuse_own_folder() const {
    std::error_code error;
    const fs::path from = fs::weakly_canonical(c_.from, error), to = fs::weakly_canonical(c_.to, error);
    const auto inside = [](const fs::path& a, const fs::path& b) {  // a is b, or below it
      return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end();
    };
    if (fs::exists(to, error) && inside(from, to))
      throw Error(fmt::format("cannot write {}: what is converted is in it", c_.to.string()),
                  "another folder");
  }

  // Which of the old model's tokens the new one has.
  void choose_tokens() {
    const Tokenizer old = Tokenizer::load(beside_);
    if (old.kind() != "WordPiece")
      throw Error(fmt::format("{} has a {} vocabulary; tokens are taken from WordPiece's", beside_.string(),
                              old.kind()),
                  "a BERT or a DistilBERT", "vocabulary");
    const Tokenizer fewer = Tokenizer::from_vocab(c_.vocabulary);
    for (int32_t id = 0; id < int32_t(fewer.vocab_size()); ++id) {
      const std::string_view token = fewer.token(id);
      const std::optional<int32_t> was = old.id(token);
      if (!was)
        throw Error(fmt::format("{}: {} is not one of the tokens of {}", c_.vocabulary.string(),
                                io::quote(token), beside_.string()),
                    "bertie vocab with `from` makes a list of some of them", "vocabulary");
      tokens_.push_back(*was);
    }
    pad_ = fewer.pad_id();
  }

  // What has a row for each token gets those that were chosen.
  void cut_vocabulary(const Family& f, size_t before) {
    const std::string prefix(f.prefix), word = std::string(f.embeddings.word) + ".weight",
                                        decoder(f.language_model.decoder), bias(f.language_model.bias);
    for (auto& [name, job] : jobs_) {
      if (name != word && name != prefix + word && name != decoder + ".weight" && name != decoder + ".bias" &&
          name != bias)
        continue;
      if (job.shape.empty() || job.shape[0] < before || job.transposed)
        continue;  // check_checkpoint complains
      job.rows = tokens_, job.shape[0] = tokens_.size();
    }
  }

  void write_config(const fs::path& model) {
    const ModelFiles beside(beside_);
    if (c_.config.empty() && !beside.has(io::kConfigFile))
      throw Error(fmt::format("no {} in {}", io::kConfigFile, beside_.string()),
                  "name one (`config`), with the model's shape as transformers or Google's BERT writes it");
    config_at_ = c_.config.empty() ? fs::path(beside.name_of(io::kConfigFile)) : c_.config;
    std::string text(c_.config.empty() ? beside.read(io::kConfigFile).text()
                                       : io::MappedFile(c_.config).text());
    const nlohmann::json checked = io::parse_json(text, config_at_.string());
    if (!checked.is_object())
      throw Error(fmt::format("{}: there should be an object of keys and values", config_at_.string()));
    Json json = Json::parse(text);
    bool changed = false;
    if (!tokens_.empty()) {
      json["vocab_size"] = tokens_.size(), changed = true;
      if (json.contains("pad_token_id")) json["pad_token_id"] = pad_;
    }
    if (!json.contains("model_type")) {  // Google's own files do without
      const bool albert = json.contains("num_hidden_groups");
      json["model_type"] = albert ? "albert" : "bert";
      changed = true;
    }
    if (dtype_) {
      const char* name = *dtype_ == io::DType::kF16    ? "float16"
                         : *dtype_ == io::DType::kBF16 ? "bfloat16"
                                                       : "float32";
      const bool retyped = std::any_of(inputs_.begin(), inputs_.end(),
                                       [&](const InputTensor& t) { return t.dtype != *dtype_; });
      bool said = false;
      for (const char* key : {"dtype", "torch_dtype"})
        if (json.contains(key)) {
          changed |= json[key] != name;
          json[key] = name;
          said = true;
        }
      if (!said && retyped) json["dtype"] = name, changed = true;
    }
    if (changed) text = json.dump(2) + "\n";
    io::AtomicFile out(model / io::kConfigFile);
    out.write(text);
    out.commit();
  }

  // Every tensor that a model of this shape may have, by name.
  static std::map<std::string, std::vector<size_t>, std::less<>> known_tensors(const Config& config,
                                                                               const std::string& file) {
    Weights w(config, file);
    const Family& f = *w.family;
    const auto add = [&](Head head, bool has) {
      if (has) w.heads.push_back(head);
    };
    add(f.causal ? Head::kCausalLm : Head::kMaskedLm, true);
    add(Head::kNextSentence, !f.next_sentence.empty());
    add(Head::kClassify, !f.classifier.out.empty());
    add(Head::kTag, !f.tagger.empty());
    add(Head::kAnswer, !f.answerer.empty());
    w.declare();
    std::map<std::string, std::vector<size_t>, std::less<>> known;
    for (const TensorSpec& t : w.tensors) known[t.name] = t.shape;
    return known;
  }

  [[noreturn]] void unknown(const std::string& name, const std::string& from) const {
    std::vector<std::string_view> names;
    for (const auto& [known, shape] : known_) names.push_back(known);
    const std::string_view meant = nearest(name, names);
    throw Error(
        fmt::format("{}: tensor {} belongs to nothing that the model has", c_.from.string(), io::quote(from)),
        fmt::format("{}`drop` with its name or `drop_unknown` leaves it out",
                    meant.empty() ? "" : fmt::format("the nearest that it has is {}; ", io::quote(meant))));
  }

  // What becomes of each tensor.
  void plan(const Config& config, const std::string& config_name) {
    known_ = known_tensors(config, config_name);
    const Family& f = family_of(config.model_type, config_name);
    const std::string prefix(f.prefix), decoder(f.language_model.decoder), bias(f.language_model.bias);
    std::set<std::string> to_drop(c_.drop.begin(), c_.drop.end()), names;
    for (const InputTensor& t : inputs_) {
      Renamed r = rename_tensor(t.name, config.model_type);
      if (to_drop.erase(t.name) + to_drop.erase(r.name) > 0) {
        result_.dropped.push_back({t.name, "as asked"});
        continue;
      }
      if (r.name.empty()) {
        result_.dropped.push_back({t.name, std::string(r.dropped)});
        continue;
      }
      const bool is_known = known_.contains(r.name) || known_.contains(prefix + r.name);
      const bool copy =
          config.tied && !decoder.empty() && (r.name == decoder + ".weight" || r.name == decoder + ".bias");
      const bool unused = !config.tied && r.name == bias;
      if (!is_known && !copy && !unused) {
        if (!c_.drop_unknown) unknown(r.name, t.name);
        result_.dropped.push_back({t.name, "nothing that the model has"});
        continue;
      }
      if (t.dtype != io::DType::kF32 && t.dtype != io::DType::kF16 && t.dtype != io::DType::kBF16 &&
          t.dtype != io::DType::kF64)
        throw Error(fmt::format("{}: tensor {} is {}; weights are floating-point numbers", c_.from.string(),
                                io::quote(t.name), io::name_of(t.dtype)));
      add_job(t, r);
    }
    if (!to_drop.empty()) {
      std::vector<std::string_view> there;
      for (const InputTensor& t : inputs_) there.push_back(t.name);
      const std::string_view meant = nearest(*to_drop.begin(), there);
      throw Error(
          fmt::format("{}: there is no tensor {} to drop", c_.from.string(), io::quote(*to_drop.begin())),
          meant.empty() ? "" : fmt::format("{} is there", io::quote(meant)));
    }
    if (config.tied && !decoder.empty()) {
      drop_copy(decoder + ".weight", prefix, std::string(f.embeddings.word) + ".weight");
      // DistilBERT knows no other name for it.
      if (!bias.empty() && bias != decoder + ".bias") drop_copy(decoder + ".bias", "", bias);
    }
    if (!tokens_.empty()) cut_vocabulary(f, *std::ranges::max_element(tokens_) + size_t{1});
  }

  void add_job(const InputTensor& t, const Renamed& r) {
    Job job{.input = &t, .name = r.name, .shape = t.shape, .transposed = r.transposed, .dtype = t.dtype};
    if (dtype_) job.dtype = *dtype_;
    if (job.dtype == io::DType::kF64) job.dtype = io::DType::kF32;
    if (r.squeezed) std::erase(job.shape, size_t{1});
    if (r.squeezed && job.shape.empty() && !t.shape.empty()) job.shape = {1};
    if (r.transposed) {
      if (job.shape.size() != 2)
        throw Error(fmt::format("{}: tensor {} has {} dimensions; a kernel has 2", c_.from.string(),
                                io::quote(t.name), job.shape.size()));
      std::swap(job.shape[0], job.shape[1]);
    }
    const auto [at, is_new] = jobs_.emplace(r.name, job);
    if (!is_new)
      throw Error(fmt::format("{}: tensors {} and {} are both {}", c_.from.string(),
                              io::quote(at->second.input->name), io::quote(t.name), r.name),
                  fmt::format("drop {}", io::quote(t.name)));
    result_.renamed += r.name != t.name;
  }

  // A copy of a tied tensor goes; where only the copy is there, it becomes the tensor. A file of a bare model
  // does without the prefix.
  void drop_copy(const std::string& copy, const std::string& prefix, const std::string& of) {
    const auto from = jobs_.find(copy);
    if (from == jobs_.end()) return;
    auto to = jobs_.find(prefix + of);
    if (to == jobs_.end()) to = jobs_.find(of);
    if (to == jobs_.end()) {
      Job job = std::move(from->second);
      jobs_.erase(from);
      job.name = prefix + of;
      jobs_.emplace(job.name, job);
      return;
    }
    const Job &a = from->second, &b = to->second;
    const std::vector<float> x = a.input->read(), y = b.input->read();
    if (a.shape != b.shape || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0)
      throw Error(
          fmt::format("{}: tensor {} should be a copy of {}, to which config.json ties it, but it differs",
                      c_.from.string(), io::quote(a.input->name), io::quote(b.input->name)),
          fmt::format("drop {}, or say \"tie_word_embeddings\": false in config.json",
                      io::quote(a.input->name)));
    result_.dropped.push_back({a.input->name, "a copy of " + b.name});
    jobs_.erase(from);
  }

  void write_tensors(const fs::path& file) {
    uint64_t total = 0, done = 0;
    for (const auto& [name, job] : jobs_) total += job.elements() * io::size_of(job.dtype);
    const Job* loaded = nullptr;
    std::vector<float> numbers;  // of `loaded`, in the order of the new file
    std::vector<io::TensorSource> sources;
    for (const auto& [name, j] : jobs_) {
      const Job& job = j;
      const auto read = [&](size_t first, std::span<float> out) {
        if (c_.progress) c_.progress(done, total);
        if (job.input->read_part && !job.transposed && job.rows.empty()) {
          job.input->read_part(first, out);
        } else {
          if (loaded != &job) {
            numbers = {};
            numbers = job.transposed ? transpose(job.input->read(), job.shape) : job.input->read();
            if (!job.rows.empty()) numbers = rows_of(numbers, job.rows, job.elements() / job.rows.size());
            loaded = &job;
          }
          std::copy_n(numbers.begin() + long(first), out.size(), out.begin());
        }
        done += out.size() * io::size_of(job.dtype);
      };
      sources.push_back({.name = name, .shape = job.shape, .read = read, .dtype = job.dtype});
    }
    io::write_safetensors(file, dtype_.value_or(io::DType::kF32), sources);
    if (c_.progress) c_.progress(done, total);
    result_.tensors = sources.size();
    result_.bytes = done;
  }

  // (cols, rows) to (rows, cols) = shape.
  static std::vector<float> transpose(const std::vector<float>& in, const std::vector<size_t>& shape) {
    std::vector<float> out(in.size());
    constexpr size_t kBlock = 32;  // rows whose pieces stay in the cache
    for (size_t r0 = 0; r0 < shape[0]; r0 += kBlock)
      for (size_t c = 0; c < shape[1]; ++c)
        for (size_t r = r0; r < std::min(r0 + kBlock, shape[0]); ++r)
          out[r * shape[1] + c] = in[c * shape[0] + r];
    return out;
  }

  // The tokenizer and whatever else makes a model's folder; weights in other formats stay behind.
  void copy_others(const fs::path& folder, const fs::path& model) const {
    if (source_.empty()) {
      for (const std::string_view name : io::small_model_files())
        if (name != io::kConfigFile && name != io::kModulesFile && name != io::kSentenceTransformersFile &&
            (tokens_.empty() || !is_of_vocabulary(name)))
          copy(beside_, name, model / name);
      return write_vocabulary(model);
    }
    const std::string below = io::transformer_folder(source_);
    load_modules(source_, Config::load(model).hidden);  // says what is wrong with them
    for (const std::string& file : io::files_read(source_)) {
      const fs::path name = file;
      if (!tokens_.empty() && is_of_vocabulary(name.filename().string())) continue;
      const bool config = name.parent_path() == below && name.filename() == io::kConfigFile;
      if (!config && !io::is_weights_of(below, file)) copy(source_, file, folder / name);
    }
    write_vocabulary(model);
  }

  // Files that say which token has which number.
  static bool is_of_vocabulary(std::string_view name) {
    return name == io::kTokenizerFile || name == io::kWordPieceFile || name == io::kTokenizerConfigFile ||
           name == io::kAddedTokensFile;
  }
  void write_vocabulary(const fs::path& model) const {
    if (tokens_.empty()) return;
    copy(c_.vocabulary, ModelFiles(c_.vocabulary).only(), model / io::kWordPieceFile);
    Json settings = Json::object();
    if (const ModelFiles beside(beside_); beside.has(io::kTokenizerConfigFile))
      settings = Json::parse(beside.read(io::kTokenizerConfigFile).text());
    settings.erase("added_tokens_decoder");
    settings["do_lower_case"] = Tokenizer::load(beside_).lowercase();
    io::AtomicFile out(model / io::kTokenizerConfigFile);
    out.write(settings.dump(2) + "\n");
    out.commit();
  }

  static void copy(const ModelFiles& from, std::string_view file, const fs::path& to) {
    if (!from.has(file)) return;
    fs::create_directories(to.parent_path());
    io::AtomicFile out(to);
    out.write(from.read(file).text());
    out.commit();
  }

  ConvertOptions c_;
  std::optional<io::DType> dtype_;
  fs::path source_;      // the model folder, if it is one
  fs::path tensors_at_;  // the file, or the folder with the tensors in it
  fs::path config_at_;
  fs::path beside_;              // the folder with config.json and the tokenizer
  std::vector<int32_t> tokens_;  // of the old vocabulary that the new one has; empty: all
  int32_t pad_ = 0;              // in the new one
  std::vector<InputTensor> inputs_;
  std::map<std::string, std::vector<size_t>, std::less<>> known_;
  std::map<std::string, Job> jobs_;  // by new name
  Conversion result_;
};

}  // namespace

Conversion convert(const ConvertOptions& options) { return Converter(options).run(); }

}  // namespace bertie
