// Entities: labels of tokens, put together to labels of words and of their neighbours. The rules are those of
// transformers' token-classification pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "tasks/code_points.h"
#include "tasks/pipeline_state.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

// A token of the text, or (after join_words) a word of it.
struct Piece {
  std::string word;
  std::span<const float> scores;  // for each label; of a word none
  Offset place;
  size_t first_token = 0, tokens = 1;
  bool goes_on = false;  // with the word of the piece before it
  std::string label = {};
  float score = 0;
};

class Grouping {
 public:
  Grouping(const Tokenizer& tokenizer, const std::vector<std::string>& labels, Group group)
      : tokenizer_(tokenizer), labels_(labels), group_(group) {}

  // Entities of one window, labels that are to be left out included.
  std::vector<Entity> operator()(std::vector<Piece> pieces) const {
    for (Piece& piece : pieces) choose(piece, piece.scores);
    if (group_ == Group::kNone) {
      std::vector<Entity> out;
      for (Piece& p : pieces)
        out.push_back({std::move(p.label), p.score, std::move(p.word), p.place, p.first_token, 1});
      return out;
    }
    if (group_ != Group::kSimple) pieces = join_words(pieces);
    return join_neighbours(pieces);
  }

 private:
  void choose(Piece& piece, std::span<const float> scores) const {
    const auto best = std::max_element(scores.begin(), scores.end());
    piece.label = labels_[size_t(best - scores.begin())];
    piece.score = *best;
  }

  std::vector<Piece> join_words(const std::vector<Piece>& pieces) const {
    std::vector<Piece> words;
    for (size_t first = 0, last; first < pieces.size(); first = last) {
      for (last = first + 1; last < pieces.size() && pieces[last].goes_on;) ++last;
      words.push_back(one_word(std::span(pieces).subspan(first, last - first)));
    }
    return words;
  }

  Piece one_word(std::span<const Piece> pieces) const {
    Piece word = joined(pieces);
    if (group_ == Group::kFirst) {
      word.label = pieces[0].label, word.score = pieces[0].score;
    } else if (group_ == Group::kMax) {
      const auto best = std::max_element(pieces.begin(), pieces.end(),
                                         [](const Piece& a, const Piece& b) { return a.score < b.score; });
      word.label = best->label, word.score = best->score;
    } else {
      std::vector<float> mean(labels_.size());
      for (size_t l = 0; l < mean.size(); ++l) {
        double sum = 0;
        for (const Piece& p : pieces) sum += p.scores[l];
        mean[l] = float(sum / double(pieces.size()));
      }
      choose(word, mean);
    }
    return word;
  }

  // "B-PER" is {true, "PER"}.
  static std::pair<bool, std::string_view> tag_of(std::string_view label) {
    const bool begins = label.starts_with("B-");
    if (begins || label.starts_with("I-")) label.remove_prefix(2);
    return {begins, label};
  }

  std::vector<Entity> join_neighbours(const std::vector<Piece>& pieces) const {
    std::vector<Entity> out;
    for (size_t first = 0, last; first < pieces.size(); first = last) {
      for (last = first + 1; last < pieces.size(); ++last) {
        const auto [begins, tag] = tag_of(pieces[last].label);
        if (begins || tag != tag_of(pieces[last - 1].label).second) break;
      }
      const std::span<const Piece> group = std::span(pieces).subspan(first, last - first);
      Piece whole = joined(group);
      double sum = 0;
      for (const Piece& p : group) sum += p.score;
      const std::string& label = group[0].label;
      const size_t dash = label.find('-');
      out.push_back({dash == label.npos ? label : label.substr(dash + 1), float(sum / double(group.size())),
                     std::move(whole.word), whole.place, whole.first_token, whole.tokens});
    }
    return out;
  }

  Piece joined(std::span<const Piece> pieces) const {
    std::vector<std::string> words;
    size_t tokens = 0;
    for (const Piece& p : pieces) words.push_back(p.word), tokens += p.tokens;
    return {tokenizer_.join(std::move(words)),
            {},
            {pieces.front().place.begin, pieces.back().place.end},
            pieces.front().first_token,
            tokens,
            false,
            {},
            0};
  }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& labels_;
  Group group_;
};

// Of entities from several windows that overlap, the longer one stays; of equally long ones the likelier.
std::vector<Entity> without_overlaps(std::vector<Entity> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Entity& a, const Entity& b) { return a.place.begin < b.place.begin; });
  std::vector<Entity> out;
  for (Entity& next : all) {
    if (out.empty() || next.place.begin >= out.back().place.end) {
      out.push_back(std::move(next));
      continue;
    }
    Entity& last = out.back();
    const size_t length = next.place.end - next.place.begin, before = last.place.end - last.place.begin;
    if (length > before || (length == before && next.score > last.score)) last = std::move(next);
  }
  return out;
}

// The model's scores for all tokens of a chunk of inputs, and the pieces they belong to.
struct Scores {
  const Tokenizer& tokenizer;
  const Sequences& sequences;
  std::span<const float> all;  // (tokens, labels)
  size_t labels;

  Piece piece(const CodePoints& text, size_t token, size_t number) const {
    const Offset place = sequences.offsets[token];
    const int32_t id = sequences.ids[token];
    Piece out{.word = std::string(tokenizer.token(id)),
              .scores = all.subspan(token * labels, labels),
              .place = place,
              .first_token = number};
    if (id == tokenizer.unk_id())
      out.word = text.at(place);
    else if (tokenizer.marks_continuations())  // "##" is longer than what the text says
      out.goes_on = text::count_points(out.word) != place.end - place.begin;
    else  // words begin with a space
      out.goes_on =
          place.begin > 0 && text.at({place.begin - 1, place.begin + 1}).find(' ') == std::string_view::npos;
    return out;
  }

  // The pieces of each window of a text, without special tokens. Neighbours share `stride` tokens.
  std::vector<std::vector<Piece>> windows(const CodePoints& text, size_t first, size_t end,
                                          size_t stride) const {
    std::vector<std::vector<Piece>> out;
    size_t before = 0;  // tokens of the text before the window
    for (size_t sequence = first; sequence < end; ++sequence) {
      std::vector<Piece>& pieces = out.emplace_back();
      const size_t start = sequences.starts[sequence];
      for (size_t t = 0; t < sequences.length(sequence); ++t)
        if (sequences.texts[start + t] >= 0) pieces.push_back(piece(text, start + t, before + t));
      before += pieces.size() - std::min(stride, pieces.size());
    }
    return out;
  }
};

// Leaves each token once, in the window where it has the most text around it.
void share_out(std::vector<std::vector<Piece>>& windows) {
  for (size_t w = 0; w + 1 < windows.size(); ++w) {
    std::vector<Piece>&a = windows[w], &b = windows[w + 1];
    if (a.empty() || b.empty() || a.back().first_token < b.front().first_token) continue;
    const size_t shared = a.back().first_token + 1 - b.front().first_token, left = shared - shared / 2;
    b.erase(b.begin(), b.begin() + ptrdiff_t(std::min(left, b.size())));
    a.resize(a.size() - std::min(shared - left, a.size()));
  }
}

}  // namespace

std::vector<std::vector<Entity>> Pipeline::tag(std::span<const std::string_view> texts,
                                               const TagOptions& options) {
  State& s = *state_;
  const std::vector<std::string>& labels = model().config().labels;
  const Grouping grouping(tokenizer(), labels, options.group);
  const size_t stride = options.stride.value_or(std::min<size_t>(64, s.max_length / 4));
  std::vector<std::vector<Entity>> out(texts.size());

  const auto add = [&](size_t i) {
    tokenizer().encode_into(texts[i], {.max_length = s.max_length}, s.encoding);
    if (!s.encoding.truncated) return s.sequences.add_with_places(s.encoding);
    for (const Encoding& window :
         tokenizer().encode_windows(texts[i], {.max_length = s.max_length, .stride = stride}))
      s.sequences.add_with_places(window);
  };
  const auto use = [&](size_t, size_t sequence, Matrix<const float> logits) {
    s.scores.resize(s.sequences.ids.size() * labels.size());
    for (size_t t = 0; t < logits.rows(); ++t) {
      const size_t token = s.sequences.starts[sequence] + t;
      const std::span<float> to = std::span(s.scores).subspan(token * labels.size(), labels.size());
      std::copy_n(logits.row(t), labels.size(), to.begin());
      softmax(to);
    }
  };
  const auto finish = [&](size_t i, size_t first, size_t end) {
    const Scores scores{tokenizer(), s.sequences, s.scores, labels.size()};
    auto windows = scores.windows(CodePoints(texts[i]), first, end, stride);
    if (options.group == Group::kNone) share_out(windows);
    for (std::vector<Piece>& pieces : windows)
      for (Entity& entity : grouping(std::move(pieces)))
        if (options.keep_outside || entity.label != "O") out[i].push_back(std::move(entity));
    if (windows.size() > 1 && options.group != Group::kNone) out[i] = without_overlaps(std::move(out[i]));
  };
  s.work({.head = Head::kTag, .inputs = texts.size(), .add = add, .use = use, .finish = finish});
  return out;
}

std::vector<Entity> Pipeline::tag(std::string_view text, const TagOptions& options) {
  return std::move(tag(std::span(&text, 1), options)[0]);
}

}  // namespace bertie
