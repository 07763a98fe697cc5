// The public Tokenizer: loading, templates, truncation and windows around text/word_piece.h.
#include "bertie/tokenizer.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/file.h"
#include "io/json.h"
#include "text/tokenizer_state.h"

namespace bertie {

namespace fs = std::filesystem;
using text::TemplateItem;

namespace {

size_t count_specials(const std::vector<TemplateItem>& items) {
  size_t count = 0;
  for (const TemplateItem& item : items) count += item.ids.size();
  return count;
}

text::TokenizerConfig config_beside(const fs::path& file) {
  fs::path path = file.parent_path() / "tokenizer_config.json";
  std::error_code ignored;  // what cannot be read is reported when it is opened
  if (!fs::exists(path, ignored)) return {};
  return text::read_tokenizer_config(io::MappedFile(path).text(), path.string());
}

// How many ids of each text stay. Lengths may be cut at room + 1: what is longer makes no difference.
struct Room {
  size_t a, b;
};
Room make_room(size_t a, size_t b, bool pair, size_t room, Truncate truncate) {
  if (room == kNoLimit || a + b <= room) return {a, b};
  if (truncate == Truncate::kOnlySecond && !pair)
    throw Error("Truncate::kOnlySecond needs a second text", "Pass two texts, or Truncate::kLongestFirst.");
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
                "Use a larger max_length, or Truncate::kLongestFirst.");
  return first ? Room{room - other, other} : Room{other, room - other};
}

}  // namespace

void Encoding::clear() { ids.clear(), types.clear(), offsets.clear(), words.clear(), sequences.clear(); }

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::unique_ptr<const Tokenizer::State> Tokenizer::build(text::Definition&& d) {
  const text::Vocabulary& v = d.vocabulary;
  int32_t unk = v.id(d.unk);
  std::vector<bool> special(v.size());
  for (const text::AddedToken& t : d.added)
    if (t.special) special[size_t(t.id)] = true;
  int32_t cls = v.id(d.cls), sep = v.id(d.sep), pad = v.id(d.pad), mask = v.id(d.mask);
  size_t single = count_specials(d.single), pair = count_specials(d.pair);
  text::WordPieceSettings settings{d.normalizer, unk, d.max_word_chars};
  return std::unique_ptr<const State>(new State{text::WordPiece(std::move(d.vocabulary), settings, d.added),
                                                std::move(d.single), std::move(d.pair), single, pair,
                                                std::move(special), unk, cls, sep, pad, mask,
                                                d.model_max_length, d.decoder, d.cleanup, d.decoder_prefix});
}

Tokenizer Tokenizer::load(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    file = path / "tokenizer.json";
    if (!fs::exists(file, ignored)) file = path / "vocab.txt";
    if (!fs::exists(file, ignored))
      throw Error(path.string() + " holds neither tokenizer.json nor vocab.txt",
                  "A BERT model's directory has one of them beside config.json.");
  }
  text::TokenizerConfig config = config_beside(file);
  io::MappedFile mapped(file);
  if (file.extension() != ".json")
    return Tokenizer(build(text::read_vocab(mapped.text(), file.string(), {}, config)));
  text::Definition d = text::read_tokenizer_json(mapped.text(), file.string());
  d.model_max_length = config.model_max_length.value_or(d.model_max_length);
  d.cls = config.cls.value_or(d.cls), d.sep = config.sep.value_or(d.sep);
  d.pad = config.pad.value_or(d.pad), d.mask = config.mask.value_or(d.mask);
  return Tokenizer(build(std::move(d)));
}

Tokenizer Tokenizer::from_vocab(const fs::path& file, const TokenizerOptions& options) {
  return Tokenizer(build(text::read_vocab(io::MappedFile(file).text(), file.string(), options, {})));
}
Tokenizer Tokenizer::from_vocab_text(std::string_view lines, const TokenizerOptions& options) {
  return Tokenizer(build(text::read_vocab(lines, "the vocabulary", options, {})));
}
Tokenizer Tokenizer::from_json_text(std::string_view json, const std::string& name) {
  return Tokenizer(build(text::read_tokenizer_json(json, name)));
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
  text::Pieces pieces{out.ids, out.offsets, out.words, out.workspace_,
                      limit == kNoLimit ? kNoLimit : begin + limit};
  state_->pieces.tokenize(text, options.special_tokens_in_text, pieces);
}

void Tokenizer::encode_template(std::string_view a, const std::string_view* b, const EncodeOptions& options,
                                Encoding& out) const {
  const auto& items = b ? state_->pair : state_->single;
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
  }

  for (const TemplateItem& item : items) {
    if (item.sequence < 0 && !options.add_special_tokens) continue;
    size_t count = item.sequence < 0 ? item.ids.size() : kept[item.sequence];
    out.types.resize(out.types.size() + count, item.type);
    out.sequences.resize(out.sequences.size() + count, int8_t(item.sequence));
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
                  "Use a smaller stride or a larger max_length.");
    while (parts.back().end < text.size()) {
      size_t begin = parts.back().begin + length - options.stride;
      parts.push_back({begin, std::min(begin + length, text.size())});
    }
    return parts;
  };
  std::vector<Part> parts[2] = {parts_of(whole[0], keep.a), parts_of(whole[1], keep.b)};

  std::vector<Encoding> out;
  auto add = [&](Part first, Part second) {
    Encoding& e = out.emplace_back();
    for (const TemplateItem& item : b ? state_->pair : state_->single) {
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

std::string_view Tokenizer::token(int32_t id) const {
  return id < 0 ? std::string_view() : state_->pieces.vocabulary().token(size_t(id));
}
std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  int32_t id = state_->pieces.vocabulary().id(token);
  return id < 0 ? std::nullopt : std::optional(id);
}
size_t Tokenizer::vocab_size() const { return state_->pieces.vocabulary().size(); }
bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && size_t(id) < state_->special.size() && state_->special[size_t(id)];
}
int32_t Tokenizer::cls_id() const { return state_->cls; }
int32_t Tokenizer::sep_id() const { return state_->sep; }
int32_t Tokenizer::pad_id() const { return state_->pad; }
int32_t Tokenizer::unk_id() const { return state_->unk; }
int32_t Tokenizer::mask_id() const { return state_->mask; }
size_t Tokenizer::model_max_length() const { return state_->model_max_length; }
bool Tokenizer::lowercase() const { return state_->pieces.settings().normalizer.lowercase; }

}  // namespace bertie
