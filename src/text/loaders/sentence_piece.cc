// SentencePiece's own files: spiece.model (ALBERT) and sentencepiece.bpe.model (XLM-RoBERTa, CamemBERT).
//
// Such a file does not say which ids come first and what surrounds a text: the family decides. The result is
// the tokenizer that transformers' AutoTokenizer makes.
#include <algorithm>

#include "io/json.h"
#include "io/model_file_names.h"
#include "io/protobuf.h"
#include "text/json_object.h"
#include "text/loaders/loaders.h"
#include "text/models/unigram.h"
#include "text/segmenters/sentence_piece_fast_path.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

using nlohmann::json;

// The file: a protobuf message with the pieces, how they were trained, and how text is normalized. Refers to
// the bytes of the file.
struct SentencePieceModel {
  enum Type : uint32_t { kNormal = 1, kControl = 3, kUserDefined = 4 };
  struct Piece {
    std::string_view text;
    float score = 0;
    uint32_t type = kNormal;
  };
  std::vector<Piece> pieces;
  uint32_t model_type = 1;    // 1: unigram
  std::string_view charsmap;  // see steps/charsmap.h
};

SentencePieceModel parse_model(std::string_view bytes, const std::string& name) {
  using Fields = io::MessageFields;
  const io::MessageOrigin origin{name, "a SentencePiece model",
                                 "Download it again. A model made by sentencepiece ends in .model."};
  SentencePieceModel out;
  for (Fields model(bytes, origin); model.next();) {
    if (model.number() == 1) {
      if (out.pieces.size() >= kMaxTokens) throw Error(name + ": too many pieces");
      SentencePieceModel::Piece& piece = out.pieces.emplace_back();
      for (Fields field(model.bytes(), origin); field.next();) {
        if (field.number() == 1) piece.text = field.bytes();
        if (field.number() == 2) piece.score = field.real();
        if (field.number() == 3) piece.type = uint32_t(field.value());
      }
      if (!valid_utf8(piece.text))
        throw Error(name + ": piece " + std::to_string(out.pieces.size() - 1) + " is not UTF-8 text");
    } else if (model.number() == 2) {
      for (Fields field(model.bytes(), origin); field.next();)
        if (field.number() == 3) out.model_type = uint32_t(field.value());
    } else if (model.number() == 3) {
      for (Fields field(model.bytes(), origin); field.next();)
        if (field.number() == 2) out.charsmap = field.bytes();
    }
  }
  if (out.pieces.empty())
    throw Error(name + " holds no pieces", "Is it a SentencePiece model? Download it again.");
  return out;
}

enum class Family { kAlbert, kXlmRoberta, kCamembert };

Family family_of(const std::string& class_or_type, const std::string& name) {
  std::string family = class_or_type;
  if (family.ends_with("Fast")) family.resize(family.size() - 4);
  if (family == "AlbertTokenizer" || family == "albert") return Family::kAlbert;
  if (family == "XLMRobertaTokenizer" || family == "xlm-roberta" || family == "xlm-roberta-xl")
    return Family::kXlmRoberta;
  if (family == "CamembertTokenizer" || family == "camembert") return Family::kCamembert;
  if (family.empty()) return name.ends_with(io::kAlbertPiecesFile) ? Family::kAlbert : Family::kXlmRoberta;
  throw Error(name + ": the tokenizer of " + io::quote(class_or_type) + " is not supported",
              "ALBERT, XLM-RoBERTa and CamemBERT are. For others save a tokenizer.json with transformers' "
              "save_pretrained.");
}

// How a family numbers the pieces: its own tokens come before and after those of the file.
struct PieceOrder {
  size_t skipped = 0;  // pieces at the beginning of the file that are not used
  std::vector<std::pair<std::string, double>> before, after;
  int32_t unk_id = 0;
};
PieceOrder piece_order(Family family, const SpecialTokenNames& n) {
  switch (family) {
    case Family::kAlbert:
      return {0, {}, {}, 1};
    case Family::kXlmRoberta:  // fairseq's order
      return {3, {{n.bos, 0}, {n.pad, 0}, {n.eos, 0}, {n.unk, 0}}, {{n.mask, 0}}, 3};
    case Family::kCamembert:
      return {1,
              {{"<s>NOTUSED", 0}, {n.pad, 0}, {"</s>NOTUSED", 0}, {n.unk, 0}, {"<unk>NOTUSED", -100}},
              {{n.mask, 0}},
              3};
  }
  return {};
}

Normalizers normalizers_of(Family family, const TokenizerConfig& config, std::string_view charsmap,
                           const std::string& name) {
  json steps = json::array();
  if (family == Family::kAlbert) {
    for (const char* quotes : {"``", "''"})
      steps.push_back({{"type", "Replace"}, {"pattern", {{"String", quotes}}}, {"content", "\""}});
    if (!config.keep_accents.value_or(false))
      steps.push_back({{"type", "NFKD"}}), steps.push_back({{"type", "StripAccents"}});
    if (config.lowercase.value_or(true)) steps.push_back({{"type", "Lowercase"}});
  }
  const json all{{"type", "Sequence"}, {"normalizers", steps}};
  Normalizers out = make_normalizers(JsonObject(all, name));
  if (!charsmap.empty()) out.push_back(precompiled_normalizer(charsmap, name + ": precompiled_charsmap"));
  return out;
}

}  // namespace

TokenizerParts read_sentence_piece(std::string_view bytes, const std::string& name,
                                   const std::string& family_name, const TokenizerConfig& config) {
  const SentencePieceModel file = parse_model(bytes, name);
  if (file.model_type != 1)
    throw Error(name + ": a model of type " + std::to_string(file.model_type) + ", expected 1 (unigram)",
                "Save a tokenizer.json with transformers' save_pretrained.");
  const Family family = family_of(family_name, name);
  TokenizerParts parts;
  SpecialTokenNames& names = parts.names;
  names = family == Family::kAlbert ? albert_names() : roberta_names();
  config.override_names(names);
  parts.model_max_length = config.model_max_length.value_or(kNoLimit);

  const PieceOrder order = piece_order(family, names);
  Vocabulary vocabulary(name);
  std::vector<double> scores;
  auto add_piece = [&](std::string_view text, double score) {
    vocabulary.add(text, scores.size());
    scores.push_back(score);
  };
  for (auto& [text, score] : order.before) add_piece(text, score);
  for (size_t i = order.skipped; i < file.pieces.size(); ++i)
    add_piece(file.pieces[i].text, file.pieces[i].score);
  for (auto& [text, score] : order.after) add_piece(text, score);
  vocabulary.seal("");

  SegmenterSteps steps;
  steps.normalizers = normalizers_of(family, config, file.charsmap, name);
  steps.pre_tokenizers.push_back(whitespace_split());
  const MetaspaceSettings metaspace{.prepend_scheme = config.add_prefix_space.value_or(true)
                                                          ? PrependScheme::kAlways
                                                          : PrependScheme::kNever};
  steps.pre_tokenizers.push_back(metaspace_pre_tokenizer(metaspace));
  parts.decoders.push_back(metaspace_decoder(metaspace));

  // Tokens with ids first, then control and user-defined pieces of the file, then the names that are still
  // missing.
  AddedTokenBuilder added(vocabulary);
  config.add_tokens_with_ids(names, added);
  for (const SentencePieceModel::Piece& p : file.pieces)
    if (p.type == SentencePieceModel::kControl || p.type == SentencePieceModel::kUserDefined)
      added.add({.content = std::string(p.text), .special = p.type == SentencePieceModel::kControl});
  for (const std::string* token : {&names.bos, &names.eos, &names.unk, &names.sep, &names.pad, &names.cls})
    added.add({.content = *token, .special = true});
  const std::optional<AddedToken>& mask = config.special.mask;
  added.add({.content = names.mask,
             .lstrip = family == Family::kCamembert || (mask && mask->lstrip),
             .normalized = mask && mask->normalized,
             .special = true});
  for (const AddedToken& t : config.additional_special_tokens) added.add(t);
  parts.added =
      added.finish([&](const std::string& content) { return normalized_text(steps.normalizers, content); });

  parts.post_processor = family == Family::kAlbert
                             ? bert_template(vocabulary.id(names.cls), vocabulary.id(names.sep))
                             : roberta_template(vocabulary.id(names.bos), vocabulary.id(names.eos));
  steps.model =
      std::make_unique<Unigram>(std::move(vocabulary), scores, UnigramSettings{.unk_id = order.unk_id});
  steps.fast_path = SentencePieceFastPath::make(steps, parts.added);
  parts.segmenter = std::make_unique<ComposedSegmenter>(std::move(steps), parts.added);
  return parts;
}

}  // namespace bertie::text
