// The public Tokenizer: templates, truncation and windows around a Segmenter, and decoding.
#include "bertie/tokenizer.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/file.h"
#include "text/loaders/loaders.h"
#include "text/unicode/unicode.h"

namespace bertie {

namespace fs = std::filesystem;
using text::Template;
using text::TemplateItem;

namespace {

size_t count_special_ids(const Template& items) {
  size_t count = 0;
  for (const TemplateItem& item : items) count += item.ids.size();
  return count;
}

// How many ids of each text are kept, if there is room for `room`. A length above room + 1 gives the same
// result as room + 1, unless both are too long and room is odd.
struct Lengths {
  size_t a, b;
};
Lengths truncated_lengths(size_t a, size_t b, bool pair, size_t room, Truncate truncate) {
  if (room == kNoLimit || a + b <= room) return {a, b};
  if (truncate == Truncate::kOnlySecond && !pair)
    throw Error("Truncate::kOnlySecond needs a second text",
                "Pass two texts, or truncate the longest first.");
  if (!pair) return {room, 0};
  if (truncate == Truncate::kLongestFirst) {
    size_t shorter = std::min(a, b), longer = shorter > room ? shorter : std::max(shorter, room - shorter);
    if (shorter + longer > room) shorter = room / 2, longer = room - shorter;
    return a <= b ? Lengths{shorter, longer} : Lengths{longer, shorter};
  }
  bool first = truncate == Truncate::kOnlyFirst;
  size_t other = first ? b : a;
  if (other >= room)
    throw Error(std::string("the ") + (first ? "second" : "first") + " text alone leaves no room: it has " +
                    (other > room ? "more than " : "") + std::to_string(room) +
                    " ids, and only the other may be cut",
                std::string("a larger `max_length` or a shorter ") + (first ? "second" : "first") +
                    " text, or truncate the longest first",
                "max_length");
  return first ? Lengths{room - other, other} : Lengths{other, room - other};
}

// How many spaces, "Ġ" included, a token begins and ends with.
struct OuterSpaces {
  uint32_t leading = 0, trailing = 0;
};
OuterSpaces count_outer_spaces(std::string_view token) {
  OuterSpaces spaces;
  uint32_t all = 0;
  for (const char *p = token.data(), *end = p + token.size(); p < end; ++all) {
    auto [point, length] = text::decode_utf8(p, end);
    bool space = point == 0x120 || text::is_whitespace(point);
    spaces.leading += space && spaces.leading == all;
    spaces.trailing = space ? spaces.trailing + 1 : 0;
    p += length;
  }
  return spaces;
}

// The same in 16 bits, by id. kByText: the token has no fixed number; look at the text at its offset.
constexpr uint16_t kByText = UINT16_MAX;
uint16_t pack(OuterSpaces s) {
  return std::max(s.leading, s.trailing) < 255 ? uint16_t(s.leading | s.trailing << 8) : kByText;
}

// Appends ids [begin, end) of `from` without types and sequences.
void append_ids(const Encoding& from, size_t begin, size_t end, Encoding& out) {
  auto append = [&](const auto& source, auto& to) {
    to.insert(to.end(), source.begin() + ptrdiff_t(begin), source.begin() + ptrdiff_t(end));
  };
  append(from.ids, out.ids), append(from.offsets, out.offsets), append(from.words, out.words);
}

void append_special(const TemplateItem& item, Encoding& out) {
  out.ids.insert(out.ids.end(), item.ids.begin(), item.ids.end());
  out.offsets.resize(out.ids.size());
  out.words.resize(out.ids.size(), -1);
}

}  // namespace

namespace text {

OwnedBuffers::OwnedBuffers() = default;
OwnedBuffers::OwnedBuffers(const OwnedBuffers&) {}
OwnedBuffers::OwnedBuffers(OwnedBuffers&&) noexcept = default;
OwnedBuffers& OwnedBuffers::operator=(const OwnedBuffers&) { return *this; }
OwnedBuffers& OwnedBuffers::operator=(OwnedBuffers&&) noexcept = default;
OwnedBuffers::~OwnedBuffers() = default;

Buffers& OwnedBuffers::get() {
  if (!buffers_) buffers_ = std::make_unique<Buffers>();
  return *buffers_;
}

}  // namespace text

void Encoding::clear() { ids.clear(), types.clear(), offsets.clear(), words.clear(), sequences.clear(); }

// The second text of a pair is nullptr where there is only one.
struct Tokenizer::State {
  explicit State(text::TokenizerParts&& loaded);

  const text::Vocabulary& vocabulary() const { return parts.segmenter->vocabulary(); }
  const Template& template_for(bool pair) const {
    return pair ? parts.post_processor.pair : parts.post_processor.single;
  }
  // How many ids of the texts max_length allows.
  size_t room(bool pair, const EncodeOptions& options) const;
  // Appends ids, offsets and words of a text; once there are `limit` new ids, no further word.
  void append_text(std::string_view text, const EncodeOptions& options, size_t limit, Encoding& out) const;
  // Trims the offsets of `count` ids of one text, as the post-processor says.
  void trim_offsets(std::string_view text, size_t begin, size_t count, Encoding& out) const;
  void encode(std::string_view a, const std::string_view* b, const EncodeOptions& options,
              Encoding& out) const;
  std::vector<Encoding> encode_windows(std::string_view a, const std::string_view* b,
                                       const EncodeOptions& options) const;

  text::TokenizerParts parts;
  std::vector<bool> special;           // by id
  std::vector<uint16_t> outer_spaces;  // by id, packed; empty if offsets are not trimmed
  text::SpecialTokens<int32_t> ids;    // -1 where missing
};

Tokenizer::State::State(text::TokenizerParts&& loaded) : parts(std::move(loaded)) {
  const text::Vocabulary& v = vocabulary();
  special.resize(v.size());
  for (const text::AddedToken& t : parts.added)
    if (t.special) special[size_t(t.id)] = true;
  if (!parts.post_processor.trim_offsets.empty()) {
    outer_spaces.resize(v.size());
    for (size_t id = 0; id < v.size(); ++id) outer_spaces[id] = pack(count_outer_spaces(v.token(id)));
    for (const text::AddedToken& t : parts.added)
      if (t.lstrip || t.rstrip) outer_spaces[size_t(t.id)] = kByText;
  }
  for (size_t i = 0; i < ids.all().size(); ++i) *ids.all()[i] = v.id(*parts.names.all()[i]);
}

size_t Tokenizer::State::room(bool pair, const EncodeOptions& options) const {
  if (options.max_length == kNoLimit) return kNoLimit;
  const size_t specials = options.add_special_tokens ? count_special_ids(template_for(pair)) : 0;
  if (options.max_length < specials)
    throw Error("`max_length` " + std::to_string(options.max_length) +
                    " leaves no room: the special tokens alone are " + std::to_string(specials),
                "`max_length` " + std::to_string(specials + 1) + " or more", "max_length");
  return options.max_length - specials;
}

void Tokenizer::State::append_text(std::string_view text, const EncodeOptions& options, size_t limit,
                                   Encoding& out) const {
  if (text.size() >= UINT32_MAX / 2)
    throw Error("a text of " + std::to_string(text.size()) + " bytes is too long to tokenize in one piece",
                "Split it into paragraphs.");
  text::PieceWriter writer{out.ids, out.offsets, out.words, out.buffers_.get(),
                           limit == kNoLimit ? kNoLimit : out.ids.size() + limit};
  parts.segmenter->tokenize(text, options.special_tokens_in_text, writer);
}

void Tokenizer::State::encode(std::string_view a, const std::string_view* b, const EncodeOptions& options,
                              Encoding& out) const {
  const Template& items = template_for(b);
  const size_t room = this->room(b, options);
  size_t begin[2] = {0, 0}, length[2] = {0, 0};
  auto fill = [&](size_t limit) {
    out.clear();
    for (const TemplateItem& item : items) {
      if (item.sequence >= 0) {
        begin[item.sequence] = out.ids.size();
        append_text(item.sequence ? *b : a, options, limit, out);
        length[item.sequence] = out.ids.size() - begin[item.sequence];
      } else if (options.add_special_tokens) {
        append_special(item, out);
      }
    }
  };
  // One id more than there is room for shows that a text is too long; the rest need not be tokenized. Only if
  // both texts are too long and share an odd number of ids it matters which one is longer.
  fill(room == kNoLimit ? kNoLimit : room + 1);
  if (options.truncate == Truncate::kLongestFirst && room != kNoLimit && room % 2 && length[0] > room &&
      length[1] > room)
    fill(kNoLimit);

  const Lengths keep = truncated_lengths(length[0], length[1], b, room, options.truncate);
  const size_t kept[2] = {keep.a, keep.b};
  out.truncated = kept[0] < length[0] || kept[1] < length[1];
  // The later text is cut first, so that the other one's position stays valid.
  for (int later = begin[1] > begin[0], i = 0; i < 2; ++i, later = 1 - later) {
    ptrdiff_t from = ptrdiff_t(begin[later] + kept[later]), to = ptrdiff_t(begin[later] + length[later]);
    if (from == to) continue;
    out.ids.erase(out.ids.begin() + from, out.ids.begin() + to);
    out.offsets.erase(out.offsets.begin() + from, out.offsets.begin() + to);
    out.words.erase(out.words.begin() + from, out.words.begin() + to);
    if (begin[1 - later] > begin[later]) begin[1 - later] -= size_t(to - from);
  }
  for (int i = 0; i < (b ? 2 : 1); ++i) trim_offsets(i ? *b : a, begin[i], kept[i], out);

  for (const TemplateItem& item : items) {
    if (item.sequence < 0 && !options.add_special_tokens) continue;
    size_t count = item.sequence < 0 ? item.ids.size() : kept[item.sequence];
    out.types.resize(out.types.size() + count, item.type);
    out.sequences.resize(out.sequences.size() + count, int8_t(item.sequence));
  }
}

void Tokenizer::State::trim_offsets(std::string_view text, size_t begin, size_t count, Encoding& out) const {
  if (outer_spaces.empty()) return;
  // Offsets go forward through the text, so it is read once and not from its start for each of them.
  std::string_view rest = text;
  uint32_t passed = 0;  // code points before `rest`
  const auto part_at = [&](Offset o) {
    if (o.begin < passed) rest = text, passed = 0;
    rest.remove_prefix(text_at(rest, {0, o.begin - passed}).size());
    passed = o.begin;
    return text_at(rest, {0, o.end - o.begin});
  };
  for (size_t i = begin; i < begin + count; ++i) {
    const uint16_t packed = outer_spaces[size_t(out.ids[i])];
    if (packed == 0) continue;
    Offset& o = out.offsets[i];
    OuterSpaces spaces{packed & 255u, uint32_t(packed >> 8)};
    if (packed == kByText) spaces = count_outer_spaces(part_at(o));
    for (auto [add_prefix_space] : parts.post_processor.trim_offsets) {
      // A single space before the first token was added and has no offset; several were in the text.
      bool was_added = add_prefix_space && (i == begin || o.begin == 0) && spaces.leading == 1;
      if (!was_added) o.begin = std::min(o.begin + spaces.leading, o.end);
      if (spaces.trailing > 0 && o.end >= spaces.trailing) o.end = std::max(o.end - spaces.trailing, o.begin);
    }
  }
}

std::vector<Encoding> Tokenizer::State::encode_windows(std::string_view a, const std::string_view* b,
                                                       const EncodeOptions& options) const {
  // First the whole texts, then the template around parts of them.
  Encoding whole[2];
  append_text(a, options, kNoLimit, whole[0]);
  if (b) append_text(*b, options, kNoLimit, whole[1]);
  const Lengths keep =
      truncated_lengths(whole[0].size(), whole[1].size(), b, room(b, options), options.truncate);

  struct Part {
    size_t begin, end;
  };
  auto parts_of = [&](const Encoding& text, size_t length) {
    std::vector<Part> out{{0, length}};
    if (length == text.size()) return out;
    if (length <= options.stride)
      throw Error("windows of " + std::to_string(length) + " ids cannot share " +
                      std::to_string(options.stride) + " of them with the next",
                  "a smaller `stride` or a larger `max_length`", "stride");
    while (out.back().end < text.size()) {
      size_t begin = out.back().begin + length - options.stride;
      out.push_back({begin, std::min(begin + length, text.size())});
    }
    return out;
  };
  const std::vector<Part> parts_of_text[2] = {parts_of(whole[0], keep.a), parts_of(whole[1], keep.b)};

  std::vector<Encoding> out;
  auto add = [&](Part first, Part second) {
    Encoding& e = out.emplace_back();
    for (const TemplateItem& item : template_for(b)) {
      const size_t begin = e.ids.size();
      if (item.sequence >= 0) {
        auto [from, to] = item.sequence ? second : first;
        append_ids(whole[item.sequence], from, to, e);
        trim_offsets(item.sequence ? *b : a, begin, e.ids.size() - begin, e);
      } else if (options.add_special_tokens) {
        append_special(item, e);
      }
      e.types.resize(e.ids.size(), item.type);
      e.sequences.resize(e.ids.size(), int8_t(item.sequence));
    }
  };
  // In the reference's order: the first window; every later part of a with all parts of b; then the first
  // part of a with the later ones of b.
  const auto& [parts_a, parts_b] = parts_of_text;
  add(parts_a[0], parts_b[0]);
  for (size_t i = 1; i < parts_a.size(); ++i)
    for (Part second : parts_b) add(parts_a[i], second);
  for (size_t k = 1; k < parts_b.size(); ++k) add(parts_a[0], parts_b[k]);
  return out;
}

Tokenizer::Tokenizer(text::TokenizerParts&& parts) : state_(std::make_unique<State>(std::move(parts))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::string Tokenizer::file_in(const ModelFiles& files) {
  return text::find_tokenizer_file(files);
}
Tokenizer Tokenizer::load(const ModelFiles& files) { return Tokenizer(text::load_tokenizer(files)); }
Tokenizer Tokenizer::from_vocab(const fs::path& file, const TokenizerOptions& options) {
  if (file.extension() == ".json")
    throw Error(file.string() + " is not a vocab.txt; a tokenizer.json says itself whether it is cased",
                "leave out `cased`", "cased");
  return Tokenizer(text::read_vocab_txt(io::MappedFile(file).text(), file.string(), options, {}));
}
Tokenizer Tokenizer::from_vocab_text(std::string_view lines, const TokenizerOptions& options) {
  return Tokenizer(text::read_vocab_txt(lines, "the vocabulary", options, {}));
}
Tokenizer Tokenizer::from_json_text(std::string_view json, const std::string& name) {
  return Tokenizer(text::read_tokenizer_json(json, name, {}));
}
Tokenizer Tokenizer::from_sentence_piece(std::string_view model, const std::string& family,
                                         const std::string& name) {
  return Tokenizer(text::read_sentence_piece(model, name, family, {}));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding out;
  return state_->encode(text, nullptr, options, out), out;
}
Encoding Tokenizer::encode(std::string_view a, std::string_view b, const EncodeOptions& options) const {
  Encoding out;
  return state_->encode(a, &b, options, out), out;
}
void Tokenizer::encode_into(std::string_view text, const EncodeOptions& options, Encoding& out) const {
  state_->encode(text, nullptr, options, out);
}
void Tokenizer::encode_into(std::string_view a, std::string_view b, const EncodeOptions& options,
                            Encoding& out) const {
  state_->encode(a, &b, options, out);
}
std::vector<Encoding> Tokenizer::encode_windows(std::string_view text, const EncodeOptions& options) const {
  return state_->encode_windows(text, nullptr, options);
}
std::vector<Encoding> Tokenizer::encode_windows(std::string_view a, std::string_view b,
                                                const EncodeOptions& options) const {
  return state_->encode_windows(a, &b, options);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (int32_t id : ids)
    if (id >= 0 && state_->vocabulary().has(size_t(id)) && !(skip_special && is_special(id)))
      tokens.emplace_back(token(id));
  return join(std::move(tokens));
}

std::string Tokenizer::join(std::vector<std::string> tokens) const {
  for (const auto& decoder : state_->parts.decoders) decoder->apply(tokens);
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
bool Tokenizer::marks_continuations() const { return state_->parts.segmenter->marks_continuations(); }
int32_t Tokenizer::cls_id() const { return state_->ids.cls; }
int32_t Tokenizer::sep_id() const { return state_->ids.sep; }
int32_t Tokenizer::pad_id() const { return state_->ids.pad; }
int32_t Tokenizer::unk_id() const { return state_->ids.unk; }
int32_t Tokenizer::mask_id() const { return state_->ids.mask; }
int32_t Tokenizer::bos_id() const { return state_->ids.bos; }
int32_t Tokenizer::eos_id() const { return state_->ids.eos; }
size_t Tokenizer::model_max_length() const { return state_->parts.model_max_length; }
std::string_view Tokenizer::kind() const { return state_->parts.segmenter->kind(); }
bool Tokenizer::lowercase() const { return state_->parts.segmenter->lowercase(); }

}  // namespace bertie
