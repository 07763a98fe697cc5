// The public Tokenizer: loading, templates, truncation and windows around a text::Road; and decoding.
#include "bertie/tokenizer.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/file.h"
#include "io/json.h"
#include "text/loaders/sentence_piece.h"
#include "text/tokenizer_parts.h"
#include "text/unicode/unicode.h"

namespace bertie {

namespace fs = std::filesystem;
using text::TemplateItem;

namespace {

size_t count_specials(const std::vector<TemplateItem>& items) {
  size_t count = 0;
  for (const TemplateItem& item : items) count += item.ids.size();
  return count;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // what cannot be read is reported when it is opened
  return fs::exists(path, ignored);
}

text::TokenizerConfig config_beside(const fs::path& file) {
  text::TokenizerConfig config;
  fs::path path = file.parent_path() / "tokenizer_config.json";
  if (is_there(path)) config = text::read_tokenizer_config(io::MappedFile(path).text(), path.string());
  if (config.has_decoder) return config;
  path.replace_filename("special_tokens_map.json");
  if (is_there(path)) config.add_special_tokens(io::MappedFile(path).text(), path.string());
  path.replace_filename("added_tokens.json");
  if (is_there(path)) config.add_added_tokens(io::MappedFile(path).text(), path.string());
  return config;
}

// What config.json calls the model; empty if there is none.
std::string model_type_beside(const fs::path& file) {
  fs::path path = file.parent_path() / "config.json";
  if (!is_there(path)) return "";
  nlohmann::json root = io::parse_json(io::MappedFile(path).text(), path.string());
  return root.is_object() ? io::get_string(root, "model_type", path.string(), "") : "";
}

// vocab.json (or merges.txt) and the other beside it.
text::Definition load_bpe_files(const fs::path& file, const text::TokenizerConfig& config) {
  fs::path vocab = file, merges = file;
  vocab.replace_filename("vocab.json"), merges.replace_filename("merges.txt");
  io::MappedFile vocab_file(vocab), merges_file(merges);
  return text::read_bpe_files(
      {vocab_file.text(), merges_file.text(), vocab.string(), merges.string(), model_type_beside(file)},
      config);
}

// How many ids of each text stay. Lengths may be cut at room + 1: what is longer makes no difference.
struct Room {
  size_t a, b;
};
Room make_room(size_t a, size_t b, bool pair, size_t room, Truncate truncate) {
  if (room == kNoLimit || a + b <= room) return {a, b};
  if (truncate == Truncate::kOnlySecond && !pair)
    throw Error("Truncate::kOnlySecond needs a second text",
                "Pass two texts, or truncate the longest first.");
  if (!pair) return {room, 0};
  if (truncate == Truncate::kLongestFirst) {
    size_t shorter = std::min(a, b), longer = shorter > room ? shorter : std::max(shorter, room - shorter);
    if (shorter + longer > room) shorter = room / 2, longer = room - shorter;
    return a <= b ? Room{shorter, longer} : Room{longer, shorter};
  }
  bool first = truncate == Truncate::kOnlyFirst;
  size_t other = first ? b : a;
  if (other >= room)
    throw Error(std::string("the ") + (first ? "second" : "first") + " text alone leaves no room: it has " +
                    (other > room ? "more than " : "") + std::to_string(room) +
                    " ids, and only the other may be cut",
                "A larger max_length (--max-length), a shorter first text (--max-question), or truncate the "
                "longest first.");
  return first ? Room{room - other, other} : Room{other, room - other};
}

// How many spaces, "Ġ" among them, a token's text begins and ends with.
struct OuterSpaces {
  uint32_t leading = 0, trailing = 0;
};
OuterSpaces outer_spaces(std::string_view token) {
  OuterSpaces spaces;
  uint32_t all = 0;
  for (const char *p = token.data(), *end = p + token.size(); p < end; ++all) {
    auto [point, length] = text::decode_utf8(p, end);
    bool space = point == 0x120 || (text::flags(point) & text::kRawSpace);
    spaces.leading += space && spaces.leading == all;
    spaces.trailing = space ? spaces.trailing + 1 : 0;
    p += length;
  }
  return spaces;
}

// The same in 16 bits, for the table by id; kLook: not for this token, look at the text it stands for.
constexpr uint16_t kLook = UINT16_MAX;
uint16_t packed(OuterSpaces s) {
  return std::max(s.leading, s.trailing) < 255 ? uint16_t(s.leading | s.trailing << 8) : kLook;
}

}  // namespace

namespace text {

Scratch::Scratch() = default;
Scratch::Scratch(const Scratch&) {}
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(const Scratch&) { return *this; }
Scratch& Scratch::operator=(Scratch&&) noexcept = default;
Scratch::~Scratch() = default;

Workspace& Scratch::get() {
  if (!workspace_) workspace_ = std::make_unique<Workspace>();
  return *workspace_;
}

}  // namespace text

void Encoding::clear() { ids.clear(), types.clear(), offsets.clear(), words.clear(), sequences.clear(); }

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::unique_ptr<const Tokenizer::State> Tokenizer::build(text::Definition&& d) {
  const text::Vocabulary& v = d.road->vocabulary();
  std::vector<bool> special(v.size());
  for (const text::AddedToken& t : d.added)
    if (t.special) special[size_t(t.id)] = true;
  std::vector<uint16_t> spaces(d.post_processor.trims.empty() ? 0 : v.size());
  for (size_t id = 0; id < spaces.size(); ++id) spaces[id] = packed(outer_spaces(v.token(id)));
  for (const text::AddedToken& t : d.added)
    if (!spaces.empty() && (t.lstrip || t.rstrip)) spaces[size_t(t.id)] = kLook;
  size_t single = count_specials(d.post_processor.single), pair = count_specials(d.post_processor.pair);
  const text::SpecialNames& n = d.names;
  int32_t unk = v.id(n.unk), cls = v.id(n.cls), sep = v.id(n.sep), pad = v.id(n.pad), mask = v.id(n.mask),
          bos = v.id(n.bos), eos = v.id(n.eos);
  return std::unique_ptr<const State>(new State{std::move(d), single, pair, std::move(special),
                                                std::move(spaces), unk, cls, sep, pad, mask, bos, eos});
}

fs::path Tokenizer::file_in(const fs::path& directory) {
  for (const char* name :
       {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model"})
    if (is_there(directory / name)) return directory / name;
  return {};
}

Tokenizer Tokenizer::load(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    file = file_in(path);
    if (file.empty())
      throw Error(
          path.string() + " holds neither tokenizer.json nor vocab.txt, vocab.json or a SentencePiece model",
          "A model's directory has one of them beside config.json.");
  }
  text::TokenizerConfig config = config_beside(file);
  if (file.filename() == "vocab.json" || file.filename() == "merges.txt")
    return Tokenizer(build(load_bpe_files(file, config)));
  io::MappedFile mapped(file);
  if (file.extension() == ".model")
    return Tokenizer(build(text::read_sentence_piece(
        mapped.text(), file.string(),
        config.tokenizer_class.empty() ? model_type_beside(file) : config.tokenizer_class, config)));
  if (file.extension() != ".json")
    return Tokenizer(build(text::read_vocab(mapped.text(), file.string(), {}, config)));
  return Tokenizer(build(text::read_tokenizer_json(mapped.text(), file.string(), config)));
}

Tokenizer Tokenizer::from_vocab(const fs::path& file, const TokenizerOptions& options) {
  return Tokenizer(build(text::read_vocab(io::MappedFile(file).text(), file.string(), options, {})));
}
Tokenizer Tokenizer::from_vocab_text(std::string_view lines, const TokenizerOptions& options) {
  return Tokenizer(build(text::read_vocab(lines, "the vocabulary", options, {})));
}
Tokenizer Tokenizer::from_json_text(std::string_view json, const std::string& name) {
  return Tokenizer(build(text::read_tokenizer_json(json, name, {})));
}

Tokenizer Tokenizer::from_sentence_piece(std::string_view model, const std::string& family,
                                         const std::string& name) {
  return Tokenizer(build(text::read_sentence_piece(model, name, family, {})));
}

size_t Tokenizer::room(bool pair, const EncodeOptions& options) const {
  if (options.max_length == kNoLimit) return kNoLimit;
  size_t specials = !options.add_special_tokens ? 0 : pair ? state_->pair_specials : state_->single_specials;
  if (options.max_length < specials)
    throw Error("max_length " + std::to_string(options.max_length) +
                " leaves no room: the special tokens alone are " + std::to_string(specials));
  return options.max_length - specials;
}

void Tokenizer::append_pieces(std::string_view text, const EncodeOptions& options, size_t limit,
                              Encoding& out) const {
  if (text.size() >= UINT32_MAX / 2)
    throw Error("a text of " + std::to_string(text.size()) + " bytes is too long to tokenize in one piece",
                "Split it into paragraphs.");
  size_t begin = out.ids.size();
  text::Pieces pieces{out.ids, out.offsets, out.words, out.scratch_.get(),
                      limit == kNoLimit ? kNoLimit : begin + limit};
  state_->definition.road->tokenize(text, options.special_tokens_in_text, pieces);
}

void Tokenizer::encode_template(std::string_view a, const std::string_view* b, const EncodeOptions& options,
                                Encoding& out) const {
  const text::PostProcessor& frame = state_->definition.post_processor;
  const auto& items = b ? frame.pair : frame.single;
  size_t room = this->room(b, options);
  size_t begin[2] = {0, 0}, length[2] = {0, 0};
  auto fill = [&](size_t limit) {
    out.clear();
    for (const TemplateItem& item : items) {
      if (item.sequence >= 0) {
        begin[item.sequence] = out.ids.size();
        append_pieces(item.sequence ? *b : a, options, limit, out);
        length[item.sequence] = out.ids.size() - begin[item.sequence];
      } else if (options.add_special_tokens) {
        out.ids.insert(out.ids.end(), item.ids.begin(), item.ids.end());
        out.offsets.resize(out.ids.size());
        out.words.resize(out.ids.size(), -1);
      }
    }
  };
  // One id more than there is room for tells that a text is too long; the rest need not be looked at. Only
  // where two such texts share an odd number of places must we know which is the longer.
  fill(room == kNoLimit ? kNoLimit : room + 1);
  if (options.truncate == Truncate::kLongestFirst && room != kNoLimit && room % 2 && length[0] > room &&
      length[1] > room)
    fill(kNoLimit);

  Room keep = make_room(length[0], length[1], b, room, options.truncate);
  size_t kept[2] = {keep.a, keep.b};
  out.truncated = kept[0] < length[0] || kept[1] < length[1];
  for (int later = begin[1] > begin[0], i = 0; i < 2; ++i, later = 1 - later) {
    ptrdiff_t from = ptrdiff_t(begin[later] + kept[later]), to = ptrdiff_t(begin[later] + length[later]);
    if (from == to) continue;
    out.ids.erase(out.ids.begin() + from, out.ids.begin() + to);
    out.offsets.erase(out.offsets.begin() + from, out.offsets.begin() + to);
    out.words.erase(out.words.begin() + from, out.words.begin() + to);
    if (begin[1 - later] > begin[later]) begin[1 - later] -= size_t(to - from);
  }
  for (int i = 0; i < (b ? 2 : 1); ++i) trim(i ? *b : a, begin[i], kept[i], out);

  for (const TemplateItem& item : items) {
    if (item.sequence < 0 && !options.add_special_tokens) continue;
    size_t count = item.sequence < 0 ? item.ids.size() : kept[item.sequence];
    out.types.resize(out.types.size() + count, item.type);
    out.sequences.resize(out.sequences.size() + count, int8_t(item.sequence));
  }
}

// Takes outer spaces out of the offsets of one text's tokens, as the post-processor says.
void Tokenizer::trim(std::string_view text, size_t begin, size_t count, Encoding& out) const {
  const std::vector<bool>& trims = state_->definition.post_processor.trims;
  if (trims.empty()) return;
  for (size_t i = begin; i < begin + count; ++i) {
    uint16_t known = state_->spaces[size_t(out.ids[i])];
    if (known == 0) continue;
    Offset& o = out.offsets[i];
    OuterSpaces spaces{known & 255u, uint32_t(known >> 8)};
    if (known == kLook) spaces = outer_spaces(text_at(text, o));
    for (bool prefix_was_added : trims) {
      // The one space before the first token was put there, and takes no place; more were in the text.
      bool was_added = prefix_was_added && (i == begin || o.begin == 0) && spaces.leading == 1;
      if (!was_added) o.begin = std::min(o.begin + spaces.leading, o.end);
      if (spaces.trailing > 0 && o.end >= spaces.trailing) o.end = std::max(o.end - spaces.trailing, o.begin);
    }
  }
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding out;
  return encode_template(text, nullptr, options, out), out;
}
Encoding Tokenizer::encode(std::string_view a, std::string_view b, const EncodeOptions& options) const {
  Encoding out;
  return encode_template(a, &b, options, out), out;
}
void Tokenizer::encode_into(std::string_view text, const EncodeOptions& options, Encoding& out) const {
  encode_template(text, nullptr, options, out);
}
void Tokenizer::encode_into(std::string_view a, std::string_view b, const EncodeOptions& options,
                            Encoding& out) const {
  encode_template(a, &b, options, out);
}

std::vector<Encoding> Tokenizer::windows(std::string_view a, const std::string_view* b,
                                         const EncodeOptions& options) const {
  // Whole texts first, then the template around parts of them.
  Encoding whole[2];
  append_pieces(a, options, kNoLimit, whole[0]);
  if (b) append_pieces(*b, options, kNoLimit, whole[1]);
  Room keep = make_room(whole[0].size(), whole[1].size(), b, room(b, options), options.truncate);

  struct Part {
    size_t begin, end;
  };
  auto parts_of = [&](const Encoding& text, size_t length) {
    std::vector<Part> parts{{0, length}};
    if (length == text.size()) return parts;
    if (length <= options.stride)
      throw Error("windows of " + std::to_string(length) + " ids cannot share " +
                      std::to_string(options.stride) + " of them with the next",
                  "A smaller stride (--stride) or a larger max_length (--max-length).");
    while (parts.back().end < text.size()) {
      size_t begin = parts.back().begin + length - options.stride;
      parts.push_back({begin, std::min(begin + length, text.size())});
    }
    return parts;
  };
  std::vector<Part> parts[2] = {parts_of(whole[0], keep.a), parts_of(whole[1], keep.b)};

  const text::PostProcessor& frame = state_->definition.post_processor;
  std::vector<Encoding> out;
  auto add = [&](Part first, Part second) {
    Encoding& e = out.emplace_back();
    for (const TemplateItem& item : b ? frame.pair : frame.single) {
      if (item.sequence < 0) {
        if (!options.add_special_tokens) continue;
        e.ids.insert(e.ids.end(), item.ids.begin(), item.ids.end());
        e.offsets.resize(e.ids.size());
        e.words.resize(e.ids.size(), -1);
      } else {
        const Encoding& from = whole[item.sequence];
        auto [begin, end] = item.sequence ? second : first;
        e.ids.insert(e.ids.end(), from.ids.begin() + ptrdiff_t(begin), from.ids.begin() + ptrdiff_t(end));
        e.offsets.insert(e.offsets.end(), from.offsets.begin() + ptrdiff_t(begin),
                         from.offsets.begin() + ptrdiff_t(end));
        e.words.insert(e.words.end(), from.words.begin() + ptrdiff_t(begin),
                       from.words.begin() + ptrdiff_t(end));
      }
      if (item.sequence >= 0) trim(item.sequence ? *b : a, e.types.size(), e.ids.size() - e.types.size(), e);
      e.types.resize(e.ids.size(), item.type);
      e.sequences.resize(e.ids.size(), int8_t(item.sequence));
    }
  };
  // The reference's order: the first window; every later part of a with all parts of b; then a's first
  // part with b's later ones.
  add(parts[0][0], parts[1][0]);
  for (size_t i = 1; i < parts[0].size(); ++i)
    for (Part second : parts[1]) add(parts[0][i], second);
  for (size_t k = 1; k < parts[1].size(); ++k) add(parts[0][0], parts[1][k]);
  return out;
}

std::vector<Encoding> Tokenizer::encode_windows(std::string_view text, const EncodeOptions& options) const {
  return windows(text, nullptr, options);
}
std::vector<Encoding> Tokenizer::encode_windows(std::string_view a, std::string_view b,
                                                const EncodeOptions& options) const {
  return windows(a, &b, options);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (int32_t id : ids)
    if (id >= 0 && state_->vocabulary().has(size_t(id)) && !(skip_special && is_special(id)))
      tokens.emplace_back(token(id));
  return join(std::move(tokens));
}

std::string Tokenizer::join(std::vector<std::string> tokens) const {
  for (const auto& decoder : state_->definition.decoders) decoder->apply(tokens);
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

std::string_view Tokenizer::token(int32_t id) const {
  return id < 0 ? std::string_view() : state_->vocabulary().token(size_t(id));
}
std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  int32_t id = state_->vocabulary().id(token);
  return id < 0 ? std::nullopt : std::optional(id);
}
size_t Tokenizer::vocab_size() const { return state_->vocabulary().size(); }
bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && size_t(id) < state_->special.size() && state_->special[size_t(id)];
}
bool Tokenizer::marks_continuations() const { return state_->definition.road->marks_continuations(); }
int32_t Tokenizer::cls_id() const { return state_->cls; }
int32_t Tokenizer::sep_id() const { return state_->sep; }
int32_t Tokenizer::pad_id() const { return state_->pad; }
int32_t Tokenizer::unk_id() const { return state_->unk; }
int32_t Tokenizer::mask_id() const { return state_->mask; }
int32_t Tokenizer::bos_id() const { return state_->bos; }
int32_t Tokenizer::eos_id() const { return state_->eos; }
size_t Tokenizer::model_max_length() const { return state_->definition.model_max_length; }
std::string_view Tokenizer::kind() const { return state_->definition.road->kind(); }
bool Tokenizer::lowercase() const { return state_->definition.road->lowercase(); }

}  // namespace bertie
