// tokenizer.json: which model and which steps it names, and its added tokens.
//
// "truncation" and "padding" are not looked at: max_length is said by whoever encodes, and Bertie has no
// padding.
#include <algorithm>
#include <map>

#include "text/models/bpe.h"
#include "text/segmenters/byte_level_fast_path.h"
#include "text/steps/normalizers.h"
#include "text/segmenters/composed_segmenter.h"
#include "text/steps/pre_tokenizers.h"
#include "text/loaders/tokenizer_json_parser.h"
#include "text/tokenizer_parts.h"
#include "text/unicode/unicode.h"
#include "text/models/unigram.h"
#include "text/segmenters/sentence_piece_fast_path.h"
#include "text/segmenters/bert_segmenter.h"

namespace bertie::text {
namespace {

using nlohmann::json;

// What tokenizer_config.json says replaces what tokenizer.json says, as in transformers' classes for these
// models (its class of no model, PreTrainedTokenizerFast, takes the file as it is).
void obey(const TokenizerConfig& config, json& root) {
  if (!root.is_object() || config.tokenizer_class.starts_with("PreTrainedTokenizer")) return;
  auto set = [&root](const char* section, const char* type, const char* key,
                     const std::optional<bool>& said) {
    if (!said || !root.contains(section)) return;
    json& object = root[section];
    if (object.is_object() && object.contains("type") && object["type"] == type) object[key] = *said;
  };
  set("normalizer", "BertNormalizer", "lowercase", config.lowercase);
  set("normalizer", "BertNormalizer", "strip_accents", config.strip_accents);
  set("normalizer", "BertNormalizer", "handle_chinese_chars", config.split_cjk);
  set("pre_tokenizer", "ByteLevel", "add_prefix_space", config.add_prefix_space);
  set("post_processor", "RobertaProcessing", "add_prefix_space", config.add_prefix_space);
  set("post_processor", "RobertaProcessing", "trim_offsets", config.trim_offsets);
}

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
    else if (type == "BPE")
      bpe();
    else if (type == "Unigram")
      unigram();
    else
      model_.unsupported("type", "WordPiece, BPE or Unigram");
    known_names();
    d_.decoders = make_decoders(root_.section("decoder"));
    d_.model_max_length = config_.model_max_length.value_or(kNoLimit);
    config_.name(d_.names);
    return std::move(d_);
  }

 private:
  // BERT's own: normalizer, pre-tokenizer and model in one (text/segmenters/bert_segmenter.h).
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
    PipelineParts parts = steps();
    // known_names() and tokenizer_config.json may say others.
    d_.names = albert_names();
    if (file_.vocabulary.has(unk)) d_.names.unk = file_.vocabulary.token(unk);
    parts.model =
        std::make_unique<Unigram>(std::move(file_.vocabulary), file_.scores,
                                  UnigramSettings{int32_t(unk), model_.flag("byte_fallback", false)});
    parts.shortcut = UnigramShortcut::make(parts, d_.added);
    d_.road = std::make_unique<Pipeline>(std::move(parts), d_.added);
  }

  void bpe() {
    if (const json* dropout = model_.find("dropout"); dropout && *dropout != 0.0)
      model_.unsupported("dropout", "null");
    BpeSettings settings{.unk_token = {},
                         .prefix = model_.string("continuing_subword_prefix", ""),
                         .suffix = model_.string("end_of_word_suffix", ""),
                         .fuse_unk = model_.flag("fuse_unk", false),
                         .byte_fallback = model_.flag("byte_fallback", false),
                         .ignore_merges = model_.flag("ignore_merges", false)};
    if (model_.find("unk_token")) settings.unk_token = model_.string("unk_token", {});
    file_.vocabulary.seal("");
    PipelineParts parts = steps();
    auto model =
        std::make_unique<Bpe>(std::move(file_.vocabulary), file_.merges, std::move(settings), model_.where());
    if (auto byte_level = only_byte_level(root_.section("pre_tokenizer")))
      parts.shortcut = byte_level_road(*model, *byte_level);
    parts.model = std::move(model);
    d_.road = std::make_unique<Pipeline>(std::move(parts), d_.added);
  }

  // All but the model; the added tokens and the frame on the way, which the vocabulary must know.
  PipelineParts steps() {
    PipelineParts parts;
    parts.normalizers = make_normalizers(root_.section("normalizer"));
    parts.pre_tokenizers = make_pre_tokenizers(root_.section("pre_tokenizer"));
    added_tokens([&](const std::string& content) { return normalized_text(parts.normalizers, content); });
    frame();
    return parts;
  }

  // Where neither the model nor a tokenizer_config.json says otherwise: what the special tokens are called.
  void known_names() {
    auto known = [&](const char* name) {
      return std::any_of(d_.added.begin(), d_.added.end(),
                         [&](const AddedToken& t) { return t.content == name; });
    };
    if (known("[CLS]")) return;
    std::string unk = d_.road->vocabulary().id(d_.names.unk) < 0 ? "" : d_.names.unk;
    if (known("<s>") && known("</s>"))
      d_.names = roberta_names();
    else if (known("<|endoftext|>"))
      d_.names = gpt2_names();
    if (!unk.empty()) d_.names.unk = unk;
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
  obey(config, file.root);
  return Interpreter(file, name, config).run();
}

}  // namespace bertie::text
