// Entities: labels of tokens, put together to labels of words and of their neighbors. The rules are those of
// transformers' token-classification pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "bertie/utf8.h"
#include "tasks/text_model_state.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

// A token of the text, or (after join_words) a word of it.
struct Piece {
  std::string word;
  std::span<const float> scores;  // for each label; of a word none
  Offset offset;
  size_t first_token = 0, tokens = 1;
  bool goes_on = false;  // with the word of the piece before it
  std::string label = {};
  float score = 0;
};

class Grouping {
 public:
  Grouping(const Tokenizer& tokenizer, const std::vector<std::string>& labels, Aggregation aggregation)
      : tokenizer_(tokenizer), labels_(labels), aggregation_(aggregation) {}

  // Entities of one window, labels that are to be left out included.
  std::vector<Entity> operator()(std::vector<Piece> pieces) const {
    for (Piece& piece : pieces) choose(piece, piece.scores);
    if (aggregation_ == Aggregation::kNone) {
      std::vector<Entity> out;
      for (Piece& p : pieces)
        out.push_back({.label = std::move(p.label),
                       .score = p.score,
                       .text = {},
                       .word = std::move(p.word),
                       .offset = p.offset,
                       .first_token = p.first_token});
      return out;
    }
    if (aggregation_ != Aggregation::kSimple) pieces = join_words(pieces);
    return join_neighbors(pieces);
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
    if (aggregation_ == Aggregation::kFirst) {
      word.label = pieces[0].label, word.score = pieces[0].score;
    } else if (aggregation_ == Aggregation::kMax) {
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

  std::vector<Entity> join_neighbors(const std::vector<Piece>& pieces) const {
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
      out.push_back({.label = dash == label.npos ? label : label.substr(dash + 1),
                     .score = float(sum / double(group.size())),
                     .text = {},
                     .word = std::move(whole.word),
                     .offset = whole.offset,
                     .first_token = whole.first_token,
                     .tokens = whole.tokens});
    }
    return out;
  }

  Piece joined(std::span<const Piece> pieces) const {
    std::vector<std::string> words;
    size_t tokens = 0;
    for (const Piece& p : pieces) words.push_back(p.word), tokens += p.tokens;
    return {tokenizer_.join(std::move(words)),
            {},
            {pieces.front().offset.begin, pieces.back().offset.end},
            pieces.front().first_token,
            tokens,
            false,
            {},
            0};
  }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& labels_;
  Aggregation aggregation_;
};

// Of entities from several windows that overlap, the longer one stays; of equally long ones the likelier.
std::vector<Entity> without_overlaps(std::vector<Entity> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Entity& a, const Entity& b) { return a.offset.begin < b.offset.begin; });
  std::vector<Entity> out;
  for (Entity& next : all) {
    if (out.empty() || next.offset.begin >= out.back().offset.end) {
      out.push_back(std::move(next));
      continue;
    }
    Entity& last = out.back();
    const size_t length = next.offset.end - next.offset.begin, before = last.offset.end - last.offset.begin;
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
    const Offset offset = sequences.offsets[token];
    const int32_t id = sequences.ids[token];
    Piece out{.word = std::string(tokenizer.token(id)),
              .scores = all.subspan(token * labels, labels),
              .offset = offset,
              .first_token = number};
    if (id == tokenizer.unk_id())
      out.word = text.at(offset);
    else if (tokenizer.marks_continuations())  // "##" is longer than what the text says
      out.goes_on = text::count_points(out.word) != offset.end - offset.begin;
    else  // words begin with a space
      out.goes_on = offset.begin > 0 &&
                    text.at({offset.begin - 1, offset.begin + 1}).find(' ') == std::string_view::npos;
    return out;
  }

  // The pieces of each window of a text, without special tokens. Neighbors share `stride` tokens.
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

std::vector<Tagging> TextModel::tag(const Texts& texts, const TagOptions& options) const {
  require(Head::kTag);
  const std::vector<std::string>& labels = model().config().labels;
  const Aggregation aggregation = options.aggregation.value_or(
      model().config().labels_first_pieces ? Aggregation::kFirst : Aggregation::kSimple);
  const Grouping grouping(tokenizer(), labels, aggregation);
  const size_t max_length = state_->head_length();
  const size_t stride = options.stride.value_or(std::min<size_t>(64, max_length / 4));
  const auto worker = state_->take_worker();
  Sequences& sequences = worker->sequences;
  std::vector<Tagging> out(texts.size());

  const auto add = [&](size_t i) {
    tokenizer().encode_into(texts[i], {.max_length = max_length}, worker->encoding);
    if (!worker->encoding.truncated) return sequences.add_with_places(worker->encoding);
    for (const Encoding& window :
         tokenizer().encode_windows(texts[i], {.max_length = max_length, .stride = stride}))
      sequences.add_with_places(window);
  };
  const auto use = [&](size_t, size_t sequence, Matrix<const float> logits) {
    worker->scores.resize(sequences.ids.size() * labels.size());
    for (size_t t = 0; t < logits.rows(); ++t) {
      const size_t token = sequences.starts[sequence] + t;
      const std::span<float> to = std::span(worker->scores).subspan(token * labels.size(), labels.size());
      std::copy_n(logits.row(t), labels.size(), to.begin());
      softmax(to);
    }
  };
  const auto finish = [&](size_t i, size_t first, size_t end) {
    const Scores scores{tokenizer(), sequences, worker->scores, labels.size()};
    const CodePoints text(texts[i]);
    std::vector<Entity>& entities = out[i].entities;
    out[i].windows = end - first;
    auto windows = scores.windows(text, first, end, stride);
    if (aggregation == Aggregation::kNone) share_out(windows);
    for (std::vector<Piece>& pieces : windows)
      for (Entity& entity : grouping(std::move(pieces)))
        if (options.keep_outside || entity.label != "O") entities.push_back(std::move(entity));
    if (windows.size() > 1 && aggregation != Aggregation::kNone)
      entities = without_overlaps(std::move(entities));
    for (Entity& entity : entities) entity.text = text.at(entity.offset);
  };
  run_work(*worker, {.head = Head::kTag,
                     .inputs = texts.size(),
                     .add = add,
                     .use = use,
                     .finish = finish,
                     .progress = options.progress});
  return out;
}

Tagging TextModel::tag(std::string_view text, const TagOptions& options) const {
  return std::move(tag(Texts(std::span(&text, 1)), options)[0]);
}

}  // namespace bertie
