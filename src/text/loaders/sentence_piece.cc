#include "text/loaders/sentence_piece.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/json.h"
#include "text/steps/metaspace.h"
#include "text/steps/normalizers.h"
#include "text/segmenters/composed_segmenter.h"
#include "text/unicode/unicode.h"
#include "text/models/unigram.h"
#include "text/segmenters/sentence_piece_fast_path.h"

namespace bertie::text {
namespace {

using nlohmann::json;

// The fields of one protobuf message, one after another.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  // False at the end. Then number() and one of value() and bytes() are of the next field.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    value_ = 0, bytes_ = {};
    switch (key & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        damaged("a field of unknown kind");
    }
    return true;
  }
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  float real() const {
    if (bytes_.size() != 4) damaged("a number that is no float");
    float value;
    std::memcpy(&value, bytes_.data(), 4);
    return value;
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    throw Error(name_ + " is not a SentencePiece model, or damaged: " + what,
                "Download it again. A model made by sentencepiece ends in .model.");
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) damaged("a length leads out of the file");
    std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = uint8_t(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number does not end");
  }

  std::string_view rest_;
  const std::string& name_;
  uint64_t number_ = 0, value_ = 0;
  std::string_view bytes_;
};

enum class Family { kAlbert, kXlmRoberta, kCamembert };

Family family_of(const std::string& said, const std::string& name) {
  std::string family = said;
  if (family.ends_with("Fast")) family.resize(family.size() - 4);
  if (family == "AlbertTokenizer" || family == "albert") return Family::kAlbert;
  if (family == "XLMRobertaTokenizer" || family == "xlm-roberta" || family == "xlm-roberta-xl")
    return Family::kXlmRoberta;
  if (family == "CamembertTokenizer" || family == "camembert") return Family::kCamembert;
  if (family.empty()) return name.ends_with("spiece.model") ? Family::kAlbert : Family::kXlmRoberta;
  throw Error(name + ": the tokenizer of " + io::quote(said) + " is not supported",
              "ALBERT, XLM-RoBERTa and CamemBERT are. For others save a tokenizer.json with transformers' "
              "save_pretrained.");
}

// What the family puts before and after the file's own pieces.
struct Listing {
  size_t skipped = 0;  // of the file's pieces
  std::vector<std::pair<std::string, double>> before, after;
  int32_t unk_id = 0;
};
Listing listing(Family family, const SpecialNames& n) {
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

std::vector<std::unique_ptr<const Normalizer>> normalizers_of(Family family, const TokenizerConfig& config,
                                                              std::string_view charsmap,
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
  auto out = make_normalizers(Section(all, name));
  if (!charsmap.empty()) out.push_back(precompiled_normalizer(charsmap, name + ": precompiled_charsmap"));
  return out;
}

}  // namespace

SentencePieceFile read_sentence_piece_file(std::string_view bytes, const std::string& name) {
  SentencePieceFile file;
  for (Fields model(bytes, name); model.next();) {
    if (model.number() == 1) {
      if (file.pieces.size() >= kMaxTokens) throw Error(name + ": too many pieces");
      SentencePieceFile::Piece& piece = file.pieces.emplace_back();
      for (Fields field(model.bytes(), name); field.next();) {
        if (field.number() == 1) piece.text = field.bytes();
        if (field.number() == 2) piece.score = field.real();
        if (field.number() == 3) piece.type = uint32_t(field.value());
      }
      if (!valid_utf8(piece.text))
        throw Error(name + ": piece " + std::to_string(file.pieces.size() - 1) + " is not UTF-8 text");
    } else if (model.number() == 2) {
      for (Fields field(model.bytes(), name); field.next();)
        if (field.number() == 3) file.model_type = uint32_t(field.value());
    } else if (model.number() == 3) {
      for (Fields field(model.bytes(), name); field.next();)
        if (field.number() == 2) file.charsmap = field.bytes();
    }
  }
  if (file.pieces.empty())
    throw Error(name + " holds no pieces", "Is it a SentencePiece model? Download it again.");
  return file;
}

Definition read_sentence_piece(std::string_view bytes, const std::string& name, const std::string& said,
                               const TokenizerConfig& config) {
  const SentencePieceFile file = read_sentence_piece_file(bytes, name);
  if (file.model_type != 1)
    throw Error(name + ": a model of type " + std::to_string(file.model_type) + ", expected 1 (unigram)",
                "Save a tokenizer.json with transformers' save_pretrained.");
  const Family family = family_of(said, name);
  Definition d;
  d.names = family == Family::kAlbert ? albert_names() : roberta_names();
  config.name(d.names);
  d.model_max_length = config.model_max_length.value_or(kNoLimit);

  const Listing list = listing(family, d.names);
  Vocabulary vocabulary(name);
  std::vector<double> scores;
  auto add = [&](std::string_view text, double score) {
    vocabulary.add(text, scores.size());
    scores.push_back(score);
  };
  for (auto& [text, score] : list.before) add(text, score);
  for (size_t i = list.skipped; i < file.pieces.size(); ++i) add(file.pieces[i].text, file.pieces[i].score);
  for (auto& [text, score] : list.after) add(text, score);
  vocabulary.seal("");

  PipelineParts parts;
  parts.normalizers = normalizers_of(family, config, file.charsmap, name);
  parts.pre_tokenizers.push_back(whitespace_split());
  const MetaspaceSettings marks{.prefix = config.add_prefix_space.value_or(true) ? Prefix::kAlways
                                                                                 : Prefix::kNever};
  parts.pre_tokenizers.push_back(metaspace(marks));
  d.decoders.push_back(metaspace_decoder(marks));

  // Those with ids, the file's control and user-defined pieces, then the named ones that these are not among.
  AddedList tokens(vocabulary);
  config.add_first(d.names, tokens);
  for (const SentencePieceFile::Piece& p : file.pieces)
    if (p.type == SentencePieceFile::kControl || p.type == SentencePieceFile::kUserDefined)
      tokens.add({.content = std::string(p.text), .special = p.type == SentencePieceFile::kControl});
  for (const std::string* token :
       {&d.names.bos, &d.names.eos, &d.names.unk, &d.names.sep, &d.names.pad, &d.names.cls})
    tokens.add({.content = *token, .special = true});
  tokens.add({.content = d.names.mask,
              .lstrip = family == Family::kCamembert || (config.mask && config.mask->lstrip),
              .normalized = config.mask && config.mask->normalized,
              .special = true});
  for (const AddedToken& t : config.extra) tokens.add(t);
  d.added =
      tokens.finish([&](const std::string& content) { return normalized_text(parts.normalizers, content); });

  d.post_processor = family == Family::kAlbert
                         ? bert_frame(vocabulary.id(d.names.cls), vocabulary.id(d.names.sep))
                         : roberta_frame(vocabulary.id(d.names.bos), vocabulary.id(d.names.eos));
  parts.model =
      std::make_unique<Unigram>(std::move(vocabulary), scores, UnigramSettings{.unk_id = list.unk_id});
  parts.shortcut = UnigramShortcut::make(parts, d.added);
  d.road = std::make_unique<Pipeline>(std::move(parts), d.added);
  return d;
}

}  // namespace bertie::text
