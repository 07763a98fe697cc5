// tokenizer.json: the model and the steps that it names, and its added tokens.
//
// "truncation" and "padding" are ignored: the caller of encode gives max_length, and Bertie has no padding.
#include <algorithm>
#include <set>

#include "io/json.h"
#include "text/json_object.h"
#include "text/loaders/loaders.h"
#include "text/loaders/tokenizer_json_parser.h"
#include "text/models/unigram.h"
#include "text/segmenters/bert_segmenter.h"
#include "text/segmenters/byte_level_fast_path.h"
#include "text/segmenters/sentence_piece_fast_path.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

using nlohmann::json;

// Settings of tokenizer_config.json override those of tokenizer.json, as in transformers' classes for these
// models. (PreTrainedTokenizerFast, the class for any model, takes the file as it is.)
void apply_config(const TokenizerConfig& config, json& root) {
  if (!root.is_object() || config.tokenizer_class.starts_with("PreTrainedTokenizer")) return;
  auto set = [&root](const char* section, const char* type, const char* key, std::optional<bool> value) {
    if (!value || !root.contains(section)) return;
    json& object = root[section];
    if (object.is_object() && object.contains("type") && object["type"] == type) object[key] = *value;
  };
  set("normalizer", "BertNormalizer", "lowercase", config.lowercase);
  set("normalizer", "BertNormalizer", "strip_accents", config.strip_accents);
  set("normalizer", "BertNormalizer", "handle_chinese_chars", config.split_cjk);
  set("pre_tokenizer", "ByteLevel", "add_prefix_space", config.add_prefix_space);
  set("post_processor", "RobertaProcessing", "add_prefix_space", config.add_prefix_space);
  set("post_processor", "RobertaProcessing", "trim_offsets", config.trim_offsets);
}

class TokenizerJsonBuilder {
 public:
  TokenizerJsonBuilder(TokenizerJson& file, const std::string& name, const TokenizerConfig& config)
      : file_(file), root_(file.root, name), config_(config), model_(root_.object("model")) {
    if (root_.missing()) throw Error(name + ": expected an object, found null");
  }

  TokenizerParts build() {
    std::string type = model_.type();
    // Files from 2020 do not have the type; only these models have these keys.
    if (!model_.has("type") && model_.has("max_input_chars_per_word")) type = "WordPiece";
    if (!model_.has("type") && model_.has("unk_id") && !file_.scores.empty()) type = "Unigram";
    if (type == "WordPiece")
      build_word_piece();
    else if (type == "BPE")
      build_bpe();
    else if (type == "Unigram")
      build_unigram();
    else
      model_.unsupported("type", "WordPiece, BPE or Unigram");
    choose_names();
    parts_.decoders = make_decoders(root_.object("decoder"));
    parts_.model_max_length = config_.model_max_length.value_or(kNoLimit);
    config_.override_names(parts_.names);
    return std::move(parts_);
  }

 private:
  void build_word_piece() {
    std::string prefix = model_.string("continuing_subword_prefix", "##");
    // A punctuation character cannot begin a longer word, so a token with the prefix is always a
    // continuation.
    if (prefix.empty() || uint8_t(prefix[0]) >= 0x80 || !(flags(uint8_t(prefix[0])) & kPunct))
      model_.unsupported("continuing_subword_prefix", "\"##\"");
    size_t max_word_chars = model_.size("max_input_chars_per_word", 100, kMaxWordChars);
    parts_.names.unk = model_.string("unk_token", "[UNK]");
    file_.vocabulary.seal(prefix);
    if (file_.vocabulary.id(parts_.names.unk) < 0)
      throw Error(model_.where("unk_token") + ": the token " + io::quote(parts_.names.unk) +
                      " is missing in the vocabulary of " + std::to_string(file_.vocabulary.size()),
                  "It stands for words that cannot be split into pieces; add it to model.vocab.");
    BertNormalizerSettings normalizer = bert_normalizer();
    JsonObject pre_tokenizer = root_.object("pre_tokenizer");
    if (pre_tokenizer.type() != "BertPreTokenizer") pre_tokenizer.unsupported("type", "BertPreTokenizer");
    read_added_tokens([&](const std::string& content) { return bert_normalized_text(content, normalizer); });
    read_templates();
    const int32_t unk_id = file_.vocabulary.id(parts_.names.unk);
    parts_.segmenter = std::make_unique<BertSegmenter>(
        WordPiece(std::move(file_.vocabulary), unk_id, max_word_chars), normalizer, parts_.added);
  }

  void build_unigram() {
    if (file_.scores.empty())
      throw Error(model_.where("vocab") + ": a Unigram model needs a list of [token, score]");
    const size_t unk = model_.size("unk_id", {}, kMaxTokens);
    file_.vocabulary.seal("");
    SegmenterSteps steps = read_steps();
    // Defaults; choose_names() and tokenizer_config.json may replace them.
    parts_.names = albert_names();
    if (file_.vocabulary.has(unk)) parts_.names.unk = file_.vocabulary.token(unk);
    steps.model =
        std::make_unique<Unigram>(std::move(file_.vocabulary), file_.scores,
                                  UnigramSettings{int32_t(unk), model_.flag("byte_fallback", false)});
    steps.fast_path = SentencePieceFastPath::make(steps, parts_.added);
    parts_.segmenter = std::make_unique<ComposedSegmenter>(std::move(steps), parts_.added);
  }

  void build_bpe() {
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
    SegmenterSteps steps = read_steps();
    auto model =
        std::make_unique<Bpe>(std::move(file_.vocabulary), file_.merges, std::move(settings), model_.where());
    if (auto byte_level = only_byte_level(root_.object("pre_tokenizer")))
      steps.fast_path = make_byte_level_fast_path(*model, *byte_level);
    steps.model = std::move(model);
    parts_.segmenter = std::make_unique<ComposedSegmenter>(std::move(steps), parts_.added);
  }

  // Everything but the model, which takes the vocabulary afterwards.
  SegmenterSteps read_steps() {
    SegmenterSteps steps;
    steps.normalizers = make_normalizers(root_.object("normalizer"));
    steps.pre_tokenizers = make_pre_tokenizers(root_.object("pre_tokenizer"));
    read_added_tokens(
        [&](const std::string& content) { return normalized_text(steps.normalizers, content); });
    read_templates();
    return steps;
  }

  // The names of the special tokens, by the added tokens that the file has.
  void choose_names() {
    auto has = [&](const char* name) {
      return std::any_of(parts_.added.begin(), parts_.added.end(),
                         [&](const AddedToken& t) { return t.content == name; });
    };
    if (has("[CLS]")) return;
    std::string unk = parts_.segmenter->vocabulary().id(parts_.names.unk) < 0 ? "" : parts_.names.unk;
    if (has("<s>") && has("</s>"))
      parts_.names = roberta_names();
    else if (has("<|endoftext|>"))
      parts_.names = gpt2_names();
    if (!unk.empty()) parts_.names.unk = unk;
  }

  BertNormalizerSettings bert_normalizer() const {
    JsonObject n = root_.object("normalizer");
    if (n.missing()) return {false, false, false, false};
    if (n.type() != "BertNormalizer") n.unsupported("type", "\"BertNormalizer\"");
    BertNormalizerSettings s;
    s.clean_text = n.flag("clean_text", true);
    s.split_cjk = n.flag("handle_chinese_chars", true);
    s.lowercase = n.flag("lowercase", true);
    s.strip_accents = n.flag("strip_accents", s.lowercase);
    return s;
  }

  // The ids of the templates must be in the vocabulary or among the added tokens.
  void read_templates() {
    parts_.post_processor = read_post_processor(root_.object("post_processor"), file_.vocabulary);
  }

  // normalize(content) applies the normalizers.
  template <class Normalize>
  void read_added_tokens(const Normalize& normalize) {
    const json* list = root_.find("added_tokens");
    if (!list) return;
    std::string key = root_.where("added_tokens");
    if (!list->is_array()) throw Error(key + ": expected an array, found " + describe(*list));
    if (list->size() > kMaxAddedTokens) throw Error(key + ": more than " + std::to_string(kMaxAddedTokens));
    std::set<std::string> seen;
    for (size_t i = 0; i < list->size(); ++i) {
      JsonObject item((*list)[i], key + "[" + std::to_string(i) + "]");
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
      if (!seen.insert(t.content).second)
        throw Error(item.where() + ": the token " + io::quote(t.content) + " is there twice");
      int32_t known = file_.vocabulary.id(t.content);
      if (known < 0)
        file_.vocabulary.add_outside(t.content, uint64_t(t.id));
      else if (known != t.id)
        throw Error(item.where("id") + ": " + io::quote(t.content) + " has id " + std::to_string(known) +
                    " in model.vocab, and " + std::to_string(t.id) + " here");
      if (t.normalized) {
        t.content = normalize(t.content);
        if (t.content.empty()) throw Error(where + ": nothing is left of the token when it is normalized");
      }
      parts_.added.push_back(std::move(t));
    }
    std::stable_partition(parts_.added.begin(), parts_.added.end(),
                          [](const AddedToken& t) { return t.special; });
  }

  TokenizerJson& file_;
  JsonObject root_;
  const TokenizerConfig& config_;
  JsonObject model_;
  TokenizerParts parts_;
};

}  // namespace

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name,
                                   const TokenizerConfig& config) {
  TokenizerJson file = parse_tokenizer_json(text, name);
  apply_config(config, file.root);
  return TokenizerJsonBuilder(file, name, config).build();
}

}  // namespace bertie::text
