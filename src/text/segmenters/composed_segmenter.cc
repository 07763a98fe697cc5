#include "text/segmenters/composed_segmenter.h"

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// Every code point with its own place.
void align(std::string_view text, uint32_t first, Aligned& out) {
  out.bytes = text;
  out.places.clear();
  out.places.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && !is_continuation(text[i])) ++first;
    out.places.push_back({first, first + 1});
  }
}

}  // namespace

std::string normalized_text(const std::vector<std::unique_ptr<const Normalizer>>& normalizers,
                            std::string_view text) {
  Workspace w;
  align(text, 0, w.text);
  for (const auto& n : normalizers) n->apply(w.text, w);
  return w.text.bytes;
}

Pipeline::Pipeline(PipelineParts parts, const std::vector<AddedToken>& added) : parts_(std::move(parts)) {
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& t : added) (t.normalized ? normalized : raw).push_back(t);
  raw_ = AddedTokens(std::move(raw));
  normalized_ = AddedTokens(std::move(normalized));
}

void Pipeline::tokenize(std::string_view text, bool special_tokens_in_text, Pieces& out) const {
  tokenize(text, special_tokens_in_text, false, out);
}
void Pipeline::tokenize_by_steps(std::string_view text, bool special_tokens_in_text, Pieces& out) const {
  tokenize(text, special_tokens_in_text, true, out);
}

void Pipeline::tokenize(std::string_view text, bool special_tokens_in_text, bool by_steps,
                        Pieces& out) const {
  Workspace& w = out.workspace;
  if (!valid_utf8(text)) replace_invalid(text, w.valid), text = w.valid;
  const bool skip_special = !special_tokens_in_text;

  const bool normalizes = parts_.shortcut && parts_.shortcut->normalizes();
  auto shortcut = [&](std::string_view piece, uint32_t first) {
    if (!parts_.shortcut || by_steps) return false;
    size_t mark = out.ids.size();
    int32_t word = out.word;
    if (parts_.shortcut->tokenize(piece, first, out)) return true;
    out.cut(mark), out.word = word;
    return false;
  };
  auto unchanged = [&](std::string_view piece, uint32_t first) {
    if (!normalizes && shortcut(piece, first)) return;
    align(piece, first, w.text);
    steps({0, uint32_t(piece.size())}, out);
  };
  auto changed = [&](std::string_view piece, uint32_t first) {
    align(piece, first, w.text);
    for (const auto& n : parts_.normalizers) n->apply(w.text, w);
    if (normalized_.empty()) {
      if (!w.text.bytes.empty()) steps({0, uint32_t(w.text.bytes.size())}, out);
      return;
    }
    // The steps write to w.text, so what is split must lie elsewhere.
    Aligned& whole = w.whole;
    std::swap(whole, w.text);
    normalized_.split(whole.bytes, skip_special, [&](size_t begin, size_t end, const AddedToken* token) {
      if (out.full()) return false;
      if (token) {
        out.push(token->id, whole.places[begin].begin, whole.places[end - 1].end), ++out.word;
        return true;
      }
      w.text.bytes.assign(whole.bytes, begin, end - begin);
      w.text.places.assign(whole.places.begin() + ptrdiff_t(begin), whole.places.begin() + ptrdiff_t(end));
      steps({0, uint32_t(end - begin)}, out);
      return true;
    });
  };

  split_counting(raw_, text, skip_special, 0, out, [&](std::string_view piece, uint32_t first) {
    if (normalizes && shortcut(piece, first)) return;
    bool same = true;
    for (const auto& n : parts_.normalizers) same = same && n->leaves_alone(piece);
    if (!same)
      changed(piece, first);
    else if (normalized_.empty())
      unchanged(piece, first);
    else
      split_counting(normalized_, piece, skip_special, first, out, unchanged);
  });
}

void Pipeline::steps(Span part, Pieces& out) const {
  Workspace& w = out.workspace;
  w.words.assign(1, part);
  for (const auto& p : parts_.pre_tokenizers) p->apply(w.text, w.words, w);
  w.text.bytes.append(kPadding, '\0');
  for (Span word : w.words) {
    if (out.full()) return;
    parts_.model->push_word(w.text.bytes.data() + word.begin, word.size(), w.text.places.data() + word.begin,
                            out);
    ++out.word;
  }
}

}  // namespace bertie::text
