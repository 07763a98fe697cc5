#include "text/models/word_piece_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

constexpr std::string_view kPrefix = "##";

// Two neighboring symbols: the first id in the upper 32 bits, the second in the lower.
using Pair = uint64_t;
Pair pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

struct PairHash {
  size_t operator()(Pair pair) const { return (pair ^ pair >> 29) * 0x9E3779B97F4A7C15 >> 7; }
};

class Trainer {
 public:
  Trainer(const WordCounts& words, const WordPieceTrainerOptions& options) : options_(options) {
    for (const std::string& token : options.special_tokens) id_of(token);
    choose_alphabet(words);
    spell(words);
  }

  std::vector<std::string> run() {
    for (uint32_t w = 0; w < words_.size(); ++w)
      for (uint32_t i = 1; i < words_[w].length; ++i) change(pair_of(symbol(w, i - 1), symbol(w, i)), 1, w);
    enqueue_changed();
    while (tokens_.size() < options_.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      // Counts change while candidates are in the queue; one that is out of date goes back with its new
      // count.
      if (const uint64_t now = pairs_[top.pair].count; now != top.count) {
        top.count = now;
        queue_.push(top);
        continue;
      }
      if (top.count < std::max<uint64_t>(1, options_.min_frequency)) break;
      merge(top);
    }
    return std::move(tokens_);
  }

 private:
  struct Word {
    uint32_t begin, length;  // in symbols_
    uint64_t count;
  };
  struct PairState {
    uint64_t count = 0;
    std::vector<uint32_t> words = {};  // those that got the pair after it was last put into the queue
  };
  // A pair in the queue, with the words that contained it when it was put there. A pair may be in the queue
  // several times, with different words, if its second symbol can be formed in two ways.
  struct Candidate {
    uint64_t count;
    Pair pair;
    uint32_t words;  // index into waiting_
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  uint32_t& symbol(uint32_t word, uint32_t i) { return symbols_[words_[word].begin + i]; }

  uint32_t id_of(std::string_view token) {
    const auto [entry, is_new] = ids_.try_emplace(std::string(token), uint32_t(tokens_.size()));
    if (is_new) tokens_.push_back(entry->first);
    return entry->second;
  }

  // Ties: the lower code point first.
  static std::vector<std::pair<uint32_t, uint64_t>> most_frequent_first(
      const std::map<uint32_t, uint64_t>& counts) {
    std::vector<std::pair<uint32_t, uint64_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
  }

  void choose_alphabet(const WordCounts& words) {
    std::map<uint32_t, uint64_t> counts;  // by code point
    words.for_each([&](std::string_view word, uint64_t count) {
      for_each_point(word, [&](uint32_t point) { counts[point] += count; });
    });
    auto kept = most_frequent_first(counts);
    kept.resize(std::min(kept.size(), options_.limit_alphabet));
    std::sort(kept.begin(), kept.end());
    for (const auto& [point, count] : kept) first_[point] = id_of(encoded(point));
  }

  // Writes words as ids of characters. Characters outside the alphabet are left out.
  void spell(const WordCounts& words) {
    std::map<uint32_t, uint64_t> uses;  // by code point: occurrences after the first character of a word
    words.for_each([&](std::string_view word, uint64_t) {
      bool is_first = true;
      for_each_point(word, [&](uint32_t point) {
        if (!std::exchange(is_first, false) && first_.contains(point)) ++uses[point];
      });
    });
    std::unordered_map<uint32_t, uint32_t> later;  // ids with "##"
    for (const auto& [point, count] : most_frequent_first(uses))
      later[point] = id_of(std::string(kPrefix) + encoded(point));
    words.for_each([&](std::string_view word, uint64_t count) {
      const auto begin = uint32_t(symbols_.size());
      bool is_first = true;
      for_each_point(word, [&](uint32_t point) {
        const bool here_first = std::exchange(is_first, false);
        const auto place = first_.find(point);
        if (place != first_.end()) symbols_.push_back(here_first ? place->second : later[point]);
      });
      words_.push_back({begin, uint32_t(symbols_.size() - begin), count});
    });
  }

  void change(Pair pair, int sign, uint32_t word) {
    PairState& state = pairs_[pair];
    const uint64_t count = words_[word].count;
    if (sign < 0) {
      state.count -= count;
      return;
    }
    state.count += count;
    if (state.words.empty()) changed_.push_back(pair);
    if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
  }

  void enqueue_changed() {
    for (const Pair pair : changed_) {
      PairState& state = pairs_[pair];
      if (state.count > 0) {
        uint32_t place = uint32_t(waiting_.size());
        if (!free_.empty()) {
          place = free_.back();
          free_.pop_back();
        } else {
          waiting_.emplace_back();
        }
        waiting_[place] = std::move(state.words);
        queue_.push({state.count, pair, place});
      }
      state.words = {};
    }
    changed_.clear();
  }

  void merge(const Candidate& top) {
    const auto a = uint32_t(top.pair >> 32), b = uint32_t(top.pair);
    std::string_view end = tokens_[b];
    if (end.starts_with(kPrefix)) end.remove_prefix(kPrefix.size());
    const uint32_t joined = id_of(tokens_[a] + std::string(end));
    const std::vector<uint32_t> in = std::exchange(waiting_[top.words], {});
    free_.push_back(top.words);
    for (const uint32_t w : in) {
      Word& word = words_[w];
      uint32_t* s = symbols_.data() + word.begin;
      uint32_t to = 0;  // the merged word is written in place, up to here
      for (uint32_t i = 0; i < word.length; ++i, ++to) {
        s[to] = s[i];
        if (i + 1 == word.length || s[i] != a || s[i + 1] != b) continue;
        s[to] = joined;
        ++i;
        if (to > 0) {
          change(pair_of(s[to - 1], a), -1, w);
          change(pair_of(s[to - 1], joined), 1, w);
        }
        if (i + 1 < word.length) {
          change(pair_of(b, s[i + 1]), -1, w);
          change(pair_of(joined, s[i + 1]), 1, w);
        }
      }
      word.length = to;
    }
    enqueue_changed();
  }

  static std::string encoded(uint32_t point) {
    char utf8[4];
    return {utf8, encode_utf8(point, utf8)};
  }

  const WordPieceTrainerOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<uint32_t, uint32_t> first_;  // the alphabet: ids without "##"
  std::vector<uint32_t> symbols_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairState, PairHash> pairs_;
  std::vector<Pair> changed_;
  std::vector<std::vector<uint32_t>> waiting_;
  std::vector<uint32_t> free_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<std::string> train_word_pieces(const WordCounts& words, const WordPieceTrainerOptions& options) {
  return Trainer(words, options).run();
}

}  // namespace bertie::text
