// tokenizer.json: which model and which steps it names, and its added tokens.
//
// "truncation" and "padding" are not looked at: max_length is said by whoever encodes, and Bertie has no
// padding.
#include <algorithm>
#include <map>

#include "text/normalizers.h"
#include "text/pipeline.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_state.h"
#include "text/unicode.h"
#include "text/unigram.h"
#include "text/unigram_shortcut.h"
#include "text/word_piece.h"

namespace bertie::text {
namespace {

using nlohmann::json;

class Interpreter {
 public:
  Interpreter(TokenizerFile& file, const std::string& name, const TokenizerConfig& config)
      : file_(file), root_(file.root, name), name_(name), config_(config), model_(root_.section("model")) {
    if (root_.missing()) throw Error(name + ": expected an object, found null");
  }

  Definition run() {
    std::string type = model_.type();
    // Files of 2020 do not name the type; these keys only WordPiece has.
    if (!model_.has("type") && model_.has("max_input_chars_per_word")) type = "WordPiece";
    if (!model_.has("type") && model_.has("unk_id") && !file_.scores.empty()) type = "Unigram";
    if (type == "WordPiece")
      word_piece();
    else if (type == "Unigram")
      unigram();
    else
      model_.unsupported("type", "WordPiece or Unigram");
    d_.decoders = make_decoders(root_.section("decoder"));
    d_.model_max_length = config_.model_max_length.value_or(kNoLimit);
    config_.name(d_.names);
    return std::move(d_);
  }

 private:
  // BERT's own: normalizer, pre-tokenizer and model in one (text/word_piece.h).
  void word_piece() {
    std::string prefix = model_.string("continuing_subword_prefix", "##");
    // Such a prefix cannot begin a word, so a token is either a beginning or a continuation.
    if (prefix.empty() || uint8_t(prefix[0]) >= 0x80 || !(flags(uint8_t(prefix[0])) & kPunct))
      model_.unsupported("continuing_subword_prefix", "\"##\"");
    size_t max_word_chars = model_.size("max_input_chars_per_word", 100, kMaxWordChars);
    d_.names.unk = model_.string("unk_token", "[UNK]");
    file_.vocabulary.seal(prefix);
    if (file_.vocabulary.id(d_.names.unk) < 0)
      throw Error(model_.where("unk_token") + ": the token " + io::quote(d_.names.unk) +
                      " is missing in the vocabulary of " + std::to_string(file_.vocabulary.size()),
                  "A word that no pieces make up becomes this token; add it to model.vocab.");
    NormalizerSettings normalizer = bert_normalizer();
    Section pre_tokenizer = root_.section("pre_tokenizer");
    if (pre_tokenizer.type() != "BertPreTokenizer") pre_tokenizer.unsupported("type", "BertPreTokenizer");
    added_tokens([&](const std::string& content) {
      Normalized normal;
      normalize(content, 0, normalizer, normal);
      return std::string(normal.text());
    });
    frame();
    WordPieceSettings settings{normalizer, file_.vocabulary.id(d_.names.unk), max_word_chars};
    d_.road = std::make_unique<WordPiece>(std::move(file_.vocabulary), settings, d_.added);
  }

  void unigram() {
    if (file_.scores.empty())
      throw Error(model_.where("vocab") + ": a Unigram model needs a list of [token, score]");
    const size_t unk = model_.size("unk_id", {}, kMaxTokens);
    file_.vocabulary.seal("");
    PipelineParts parts;
    parts.normalizers = make_normalizers(root_.section("normalizer"));
    parts.pre_tokenizers = make_pre_tokenizers(root_.section("pre_tokenizer"));
    added_tokens([&](const std::string& content) { return normalized_text(parts.normalizers, content); });
    frame();
    // tokenizer_config.json may say others.
    d_.names = file_.vocabulary.id("[CLS]") >= 0 ? albert_names() : fairseq_names();
    if (file_.vocabulary.has(unk)) d_.names.unk = file_.vocabulary.token(unk);
    parts.model =
        std::make_unique<Unigram>(std::move(file_.vocabulary), file_.scores,
                                  UnigramSettings{int32_t(unk), model_.flag("byte_fallback", false)});
    parts.shortcut = UnigramShortcut::make(parts, d_.added);
    d_.road = std::make_unique<Pipeline>(std::move(parts), d_.added);
  }

  NormalizerSettings bert_normalizer() const {
    Section n = root_.section("normalizer");
    if (n.missing()) return {false, false, false, false};
    if (n.type() != "BertNormalizer") n.unsupported("type", "\"BertNormalizer\"");
    NormalizerSettings s;
    s.clean_text = n.flag("clean_text", true);
    s.split_cjk = n.flag("handle_chinese_chars", true);
    s.lowercase = n.flag("lowercase", true);
    s.strip_accents = n.flag("strip_accents", s.lowercase);
    return s;
  }

  void frame() { d_.post_processor = make_post_processor(root_.section("post_processor"), file_.vocabulary); }

  // normalized(content): what the normalizers make of it. Special ones first, else in the file's order.
  template <class Normalize>
  void added_tokens(const Normalize& normalized) {
    const json* list = root_.find("added_tokens");
    if (!list) return;
    std::string key = root_.where("added_tokens");
    if (!list->is_array()) throw Error(key + ": expected an array, found " + show(*list));
    if (list->size() > kMaxAdded) throw Error(key + ": more than " + std::to_string(kMaxAdded));
    std::map<std::string, int32_t> seen;
    for (size_t i = 0; i < list->size(); ++i) {
      Section item((*list)[i], key + "[" + std::to_string(i) + "]");
      if (item.missing()) throw Error(item.where() + ": expected an object, found null");
      AddedToken t{.content = item.string("content", {}),
                   .id = int32_t(item.size("id", {}, kMaxTokens - 2)),
                   .single_word = item.flag("single_word", false),
                   .lstrip = item.flag("lstrip", false),
                   .rstrip = item.flag("rstrip", false),
                   .normalized = item.flag("normalized", true),
                   .special = item.flag("special", false)};
      std::string where = item.where("content");
      if (t.content.empty()) throw Error(where + ": the token is empty");
      if (t.content.size() > kMaxTokenBytes)
        throw Error(where + ": the token has more than " + std::to_string(kMaxTokenBytes) + " bytes");
      if (!seen.emplace(t.content, t.id).second)
        throw Error(item.where() + ": the token " + io::quote(t.content) + " is there twice");
      int32_t known = file_.vocabulary.id(t.content);
      if (known < 0)
        file_.vocabulary.add_outside(t.content, uint64_t(t.id));
      else if (known != t.id)
        throw Error(item.where("id") + ": " + io::quote(t.content) + " has id " + std::to_string(known) +
                    " in model.vocab, and " + std::to_string(t.id) + " here");
      if (t.normalized) {
        t.content = normalized(t.content);
        if (t.content.empty()) throw Error(where + ": nothing is left of the token when it is normalised");
      }
      d_.added.push_back(std::move(t));
    }
    std::stable_partition(d_.added.begin(), d_.added.end(), [](const AddedToken& t) { return t.special; });
  }

  TokenizerFile& file_;
  Section root_;
  const std::string& name_;
  const TokenizerConfig& config_;
  Section model_;
  Definition d_;
};

}  // namespace

Definition read_tokenizer_json(std::string_view text, const std::string& name,
                               const TokenizerConfig& config) {
  TokenizerFile file = read_tokenizer_file(text, name);
  return Interpreter(file, name, config).run();
}

}  // namespace bertie::text
