// tokenizer.json of the BERT kind: BertNormalizer, BertPreTokenizer, WordPiece, and a template.
//
// The vocabulary goes straight from the parser into the Vocabulary; the rest, a few hundred values, becomes
// a tree and is read afterwards. "truncation" and "padding" are not looked at: max_length is said by whoever
// encodes, and Bertie has no padding.
#include <algorithm>
#include <map>

#include "io/json.h"
#include "text/tokenizer_state.h"
#include "text/unicode.h"

namespace bertie::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxAdded = 10'000;

std::string show(const json& value) {
  if (value.is_string()) return io::quote(value.get_ref<const std::string&>());
  if (value.is_primitive()) return value.dump();
  return std::string("an ") + value.type_name();
}

class Reader : public io::JsonHandler {
 public:
  explicit Reader(const std::string& file) : vocabulary(file) { name = file; }

  Vocabulary vocabulary;
  json root;
  bool has_vocabulary = false;

  void null() { put(nullptr); }
  void boolean(bool value) { put(value); }
  void integer(int64_t value) { put(value); }
  void real(double value) { put(value); }
  void whole(uint64_t value) {
    if (in_vocabulary_)
      vocabulary.add(key_, value);
    else
      put(value);
  }
  void string(std::string& value) { put(std::move(value)); }
  void key(std::string& value) { key_.swap(value); }
  void begin_object() {
    if (in_model() && key_ == "vocab") {
      if (has_vocabulary) throw Error(name + ": model.vocab is there twice");
      has_vocabulary = in_vocabulary_ = true;
      return;
    }
    open(json::object());
  }
  void end_object() {
    if (in_vocabulary_) {
      in_vocabulary_ = false;
      return;
    }
    close();
  }
  void begin_array() { open(json::array()); }
  void end_array() { close(); }

 private:
  bool in_model() const { return open_.size() == 2 && open_keys_[1] == "model" && open_[1]->is_object(); }

  json* put(json value) {
    if (in_vocabulary_)
      throw Error(name + ": model.vocab: the id of " + io::quote(key_) + " is " + show(value) +
                  ", not a whole number");
    if (++values_ > 10 * kMaxAdded) throw Error(name + ": too many values outside the vocabulary");
    if (open_.empty()) return root = std::move(value), &root;
    json& parent = *open_.back();
    if (parent.is_array()) return parent.push_back(std::move(value)), &parent.back();
    auto [place, added] = parent.emplace(key_, std::move(value));
    if (!added) throw Error(name + ": the key " + io::quote(key_) + " is there twice");
    return &*place;
  }
  void open(json value) {
    std::string key = key_;
    json* place = put(std::move(value));
    open_.push_back(place);
    open_keys_.push_back(std::move(key));
  }
  void close() { open_.pop_back(), open_keys_.pop_back(); }

  std::vector<json*> open_;  // a parent does not grow while its last child is open, so these stay valid
  std::vector<std::string> open_keys_;
  std::string key_;
  size_t values_ = 0;
  bool in_vocabulary_ = false;
};

class Interpreter {
 public:
  Interpreter(Definition& definition, const json& root, const std::string& name)
      : d_(definition), root_(root), name_(name) {}

  void run() {
    if (!root_.is_object()) throw Error(name_ + ": expected an object, found " + show(root_));
    model();
    normalizer();
    if (std::string type = type_of("pre_tokenizer"); type != "BertPreTokenizer")
      unsupported("pre_tokenizer.type", "BertPreTokenizer");
    added_tokens();
    post_processor();
    decoder();
  }

 private:
  const json& section(const char* key) const {
    static const json kNull;
    auto it = root_.find(key);
    if (it == root_.end()) return kNull;
    if (!it->is_null() && !it->is_object())
      throw Error(name_ + ": " + key + ": expected an object, found " + show(*it));
    return *it;
  }
  std::string type_of(const char* key) const {
    const json& object = section(key);
    return object.is_null() ? "" : io::get_string(object, "type", name_ + ": " + key, "");
  }
  [[noreturn]] void unsupported(const std::string& path, const std::string& expected) const {
    std::string slashes(1, '/');
    slashes += path;
    std::replace(slashes.begin(), slashes.end(), '.', '/');
    json::json_pointer pointer(slashes);
    std::string found = root_.contains(pointer) ? show(root_.at(pointer)) : "nothing";
    throw Error(
        name_ + ": " + path + ": expected " + expected + ", found " + found,
        "Only tokenizers of the BERT kind are supported: BertNormalizer, BertPreTokenizer, WordPiece.");
  }

  void model() {
    const json& model = section("model");
    if (model.is_null()) unsupported("model", "a WordPiece model");
    // Files of 2020 do not name the type; these keys only WordPiece has.
    bool old_style = !model.contains("type") && model.contains("max_input_chars_per_word");
    if (!old_style && type_of("model") != "WordPiece") unsupported("model.type", "\"WordPiece\"");
    std::string where = name_ + ": model",
                prefix = io::get_string(model, "continuing_subword_prefix", where, "##");
    // Such a prefix cannot begin a word, so a token is either a beginning or a continuation.
    if (prefix.empty() || uint8_t(prefix[0]) >= 0x80 || !(flags(uint8_t(prefix[0])) & kPunct))
      unsupported("model.continuing_subword_prefix", "\"##\"");
    d_.max_word_chars = io::get_size(model, "max_input_chars_per_word", where, 100, kMaxWordChars);
    d_.unk = io::get_string(model, "unk_token", where, "[UNK]");
    d_.vocabulary.seal(prefix);
    if (d_.vocabulary.id(d_.unk) < 0)
      throw Error(where + ".unk_token: the token " + io::quote(d_.unk) + " is missing in the vocabulary of " +
                      std::to_string(d_.vocabulary.size()),
                  "A word that no pieces make up becomes this token; add it to model.vocab.");
    d_.decoder_prefix = prefix;
  }

  void normalizer() {
    const json& n = section("normalizer");
    if (n.is_null()) {
      d_.normalizer = {false, false, false, false};
      return;
    }
    if (type_of("normalizer") != "BertNormalizer") unsupported("normalizer.type", "\"BertNormalizer\"");
    std::string where = name_ + ": normalizer";
    d_.normalizer.clean_text = io::get_bool(n, "clean_text", where, true);
    d_.normalizer.split_cjk = io::get_bool(n, "handle_chinese_chars", where, true);
    d_.normalizer.lowercase = io::get_bool(n, "lowercase", where, true);
    d_.normalizer.strip_accents = io::get_bool(n, "strip_accents", where, d_.normalizer.lowercase);
  }

  void added_tokens() {
    auto it = root_.find("added_tokens");
    if (it == root_.end() || it->is_null()) return;
    if (!it->is_array()) throw Error(name_ + ": added_tokens: expected an array, found " + show(*it));
    if (it->size() > kMaxAdded) throw Error(name_ + ": added_tokens: more than " + std::to_string(kMaxAdded));
    std::map<std::string, int32_t> seen;
    for (size_t i = 0; i < it->size(); ++i) {
      const json& item = (*it)[i];
      std::string where = name_ + ": added_tokens[" + std::to_string(i) + "]";
      if (!item.is_object()) throw Error(where + ": expected an object, found " + show(item));
      AddedToken t{.content = io::get_string(item, "content", where),
                   .id = int32_t(io::get_size(item, "id", where, {}, kMaxTokens - 2)),
                   .single_word = io::get_bool(item, "single_word", where, false),
                   .lstrip = io::get_bool(item, "lstrip", where, false),
                   .rstrip = io::get_bool(item, "rstrip", where, false),
                   .normalized = io::get_bool(item, "normalized", where, true),
                   .special = io::get_bool(item, "special", where, false)};
      if (t.content.empty()) throw Error(where + ".content: the token is empty");
      if (t.content.size() > kMaxTokenBytes)
        throw Error(where + ".content: the token has more than " + std::to_string(kMaxTokenBytes) + " bytes");
      if (!seen.emplace(t.content, t.id).second)
        throw Error(where + ": the token " + io::quote(t.content) + " is there twice");
      int32_t known = d_.vocabulary.id(t.content);
      if (known < 0)
        d_.vocabulary.add_outside(t.content, uint64_t(t.id));
      else if (known != t.id)
        throw Error(where + ".id: " + io::quote(t.content) + " has id " + std::to_string(known) +
                    " in model.vocab, and " + std::to_string(t.id) + " here");
      if (t.normalized) {
        Normalized normal;
        normalize(t.content, 0, d_.normalizer, normal);
        t.content = normal.text();
        if (t.content.empty())
          throw Error(where + ".content: nothing is left of the token when it is normalised");
      }
      d_.added.push_back(std::move(t));
    }
    std::stable_partition(d_.added.begin(), d_.added.end(), [](const AddedToken& t) { return t.special; });
  }

  int32_t checked_id(const json& id, const std::string& where) const {
    if (!id.is_number_unsigned() || !d_.vocabulary.has(id.get<size_t>()))
      throw Error(where + ": " + show(id) + " is not the id of a token");
    return id.get<int32_t>();
  }

  void post_processor() {
    const json& p = section("post_processor");
    std::string type = type_of("post_processor");
    if (p.is_null()) {
      d_.single = {{0, 0, {}}}, d_.pair = {{0, 0, {}}, {1, 1, {}}};
    } else if (type == "BertProcessing") {
      auto id = [&](const char* key) {
        std::string where = name_ + ": post_processor." + key;
        auto it = p.find(key);
        if (it == p.end() || !it->is_array() || it->size() != 2)
          throw Error(where + ": expected [token, id]");
        return checked_id((*it)[1], where);
      };
      set_bert_template(d_, id("cls"), id("sep"));
    } else if (type == "TemplateProcessing") {
      d_.single = read_template(p, "single", 1), d_.pair = read_template(p, "pair", 2);
    } else {
      unsupported("post_processor.type", "\"TemplateProcessing\" or \"BertProcessing\"");
    }
  }

  std::vector<TemplateItem> read_template(const json& p, const char* key, int texts) const {
    std::string where = name_ + ": post_processor." + key;
    auto list = p.find(key);
    if (list == p.end() || !list->is_array() || list->size() > 64)
      throw Error(where + ": expected a short array");
    std::vector<TemplateItem> items;
    int count[2] = {0, 0};
    for (const json& item : *list) {
      if (!item.is_object() || item.size() != 1 || !item.begin()->is_object())
        throw Error(where + ": expected {\"Sequence\": ...} or {\"SpecialToken\": ...}, found " + show(item));
      const json& body = *item.begin();
      std::string kind = item.begin().key(), id = io::get_string(body, "id", where);
      int32_t segment = int32_t(io::get_size(body, "type_id", where, 0, 1'000'000));
      if (kind == "Sequence" && (id == "A" || id == "B")) {
        ++count[id == "B"];
        items.push_back({id == "B", segment, {}});
      } else if (kind == "SpecialToken") {
        items.push_back({-1, segment, special_ids(p, id)});
      } else {
        throw Error(where + ": " + io::quote(kind) + " with id " + io::quote(id) + " is not supported");
      }
    }
    if (count[0] != 1 || count[1] != texts - 1)
      throw Error(where + ": the template must name " + (texts == 1 ? "A once" : "A and B once each"));
    return items;
  }

  std::vector<int32_t> special_ids(const json& p, const std::string& token) const {
    std::string where = name_ + ": post_processor.special_tokens";
    auto all = p.find("special_tokens");
    if (all == p.end() || !all->is_object() || !all->contains(token) || !(*all)[token].is_object())
      throw Error(where + ": the template's token " + io::quote(token) + " is missing");
    auto ids = (*all)[token].find("ids");
    if (ids == (*all)[token].end() || !ids->is_array() || ids->size() > 64)
      throw Error(where + ": " + io::quote(token) + " has no short list of ids");
    std::vector<int32_t> out;
    for (const json& id : *ids) out.push_back(checked_id(id, where));
    return out;
  }

  void decoder() {
    const json& decoder = section("decoder");
    d_.decoder = !decoder.is_null();
    if (!d_.decoder) return;
    if (type_of("decoder") != "WordPiece") unsupported("decoder.type", "\"WordPiece\"");
    d_.decoder_prefix = io::get_string(decoder, "prefix", name_ + ": decoder", "##");
    d_.cleanup = io::get_bool(decoder, "cleanup", name_ + ": decoder", true);
  }

  Definition& d_;
  const json& root_;
  const std::string& name_;
};

}  // namespace

Definition read_tokenizer_json(std::string_view text, const std::string& name) {
  Reader reader(name);
  reader.vocabulary.reserve(text.size() / 20, text.size() / 2);
  io::read_json(text, name, reader);
  Definition definition(std::move(reader.vocabulary));
  Interpreter(definition, reader.root, name).run();
  return definition;
}

}  // namespace bertie::text
