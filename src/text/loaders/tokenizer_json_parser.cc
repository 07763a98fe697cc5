#include "text/loaders/tokenizer_json_parser.h"

#include "io/json.h"
#include "text/json_object.h"
#include "text/loaders/added_token_builder.h"

namespace bertie::text {
namespace {

using nlohmann::json;

class Handler : public io::JsonHandler {
 public:
  Handler(TokenizerJson& file, const std::string& file_name) : file_(file) { name = file_name; }

  void null() { put(nullptr); }
  void boolean(bool value) { put(value); }
  void integer(int64_t value) { number(double(value), value); }
  void real(double value) { number(value, value); }
  void whole(uint64_t value) {
    if (list_ == List::kVocabulary)
      file_.vocabulary.add(key_, value);
    else
      number(double(value), value);
  }
  void string(std::string& value) {
    if (list_ == List::kMerges) {
      if (!in_item_)
        file_.merges.add_line(value, name + ": model.merges");
      else if (item_size_++ == 0)
        first_.swap(value);
      else if (item_size_ == 2)
        file_.merges.add(first_, value, name + ": model.merges");
    } else if (list_ == List::kScores && in_item_ && item_size_++ == 0) {
      first_.swap(value);
    } else {
      put(std::move(value));
    }
  }
  void key(std::string& value) { key_.swap(value); }
  void begin_object() {
    if (in_model("vocab")) return begin_list(List::kVocabulary);
    open(json::object());
  }
  void end_object() {
    if (list_ == List::kVocabulary)
      list_ = List::kNone;
    else
      close();
  }
  void begin_array() {
    if (in_model("vocab")) return begin_list(List::kScores);
    if (in_model("merges")) return begin_list(List::kMerges);
    if ((list_ == List::kScores || list_ == List::kMerges) && !in_item_) {
      in_item_ = true, item_size_ = 0;
      return;
    }
    open(json::array());
  }
  void end_array() {
    if (list_ == List::kNone || list_ == List::kVocabulary) return close();
    if (!in_item_) {
      list_ = List::kNone;
      return;
    }
    in_item_ = false;
    if (item_size_ != 2)
      throw Error(name + (list_ == List::kMerges ? ": model.merges: expected [left, right]"
                                                 : ": model.vocab: expected [token, score]"));
  }

 private:
  enum class List { kNone, kVocabulary, kScores, kMerges };

  bool in_model(const char* key) const {
    return list_ == List::kNone && open_.size() == 2 && open_keys_[1] == "model" && open_[1]->is_object() &&
           key_ == key;
  }
  void begin_list(List list) {
    bool& seen = list == List::kMerges ? has_merges_ : has_vocabulary_;
    if (seen) throw Error(name + ": model." + key_ + " is there twice");
    seen = true, list_ = list;
  }
  void number(double value, json as_json) {
    if (list_ == List::kScores && in_item_ && item_size_ == 1) {
      ++item_size_;
      file_.vocabulary.add(first_, file_.scores.size());
      file_.scores.push_back(value);
    } else {
      put(std::move(as_json));
    }
  }

  json* put(json value) {
    if (list_ == List::kVocabulary)
      throw Error(name + ": model.vocab: the id of " + io::quote(key_) + " is " + describe(value) +
                  ", not a whole number");
    if (list_ == List::kScores)
      throw Error(name + ": model.vocab: expected [token, score], found " + describe(value));
    if (list_ == List::kMerges)
      throw Error(name + ": model.merges: expected two tokens, found " + describe(value));
    if (++values_ > 10 * kMaxAddedTokens) throw Error(name + ": too many values outside the vocabulary");
    if (open_.empty()) return file_.root = std::move(value), &file_.root;
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

  TokenizerJson& file_;
  std::vector<json*> open_;  // valid, as a parent does not grow while its last child is open
  std::vector<std::string> open_keys_;
  std::string key_, first_;
  size_t values_ = 0, item_size_ = 0;
  List list_ = List::kNone;
  bool in_item_ = false, has_vocabulary_ = false, has_merges_ = false;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& name) {
  TokenizerJson file(name);
  file.vocabulary.reserve(text.size() / 20, text.size() / 2);
  Handler handler(file, name);
  io::read_json(text, name, handler);
  return file;
}

}  // namespace bertie::text
