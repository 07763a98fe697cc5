#include "train/data/task_encoding.h"

#include <algorithm>
#include <cmath>

#include "bertie/utf8.h"
#include "io/checksum.h"

namespace bertie {
namespace {

class TaskEncoder {
 public:
  TaskEncoder(const Dataset& data, const Tokenizer& tokenizer, const EncodeTasksOptions& options,
              EncodedTasks& out)
      : data_(data), tokenizer_(tokenizer), options_(options), out_(out) {}

  void add_all() {
    for (const TextExample& row : data_.texts) add(row);
    for (const TaggedSentence& sentence : data_.sentences) add(sentence);
    for (const SquadQuestion& question : data_.questions) add(question);
  }

 private:
  void add(const Encoding& encoding) {
    out_.ids.insert(out_.ids.end(), encoding.ids.begin(), encoding.ids.end());
    for (const int32_t type : encoding.types) out_.types.push_back(int8_t(type));
    out_.starts.push_back(out_.ids.size());
    out_.longest = std::max(out_.longest, encoding.size());
  }
  void end_targets() { out_.target_starts.push_back(out_.targets.size()); }

  void add(const TextExample& row) {
    const EncodeOptions how{.max_length = options_.max_length};
    if (data_.kind == TaskKind::kPair)
      tokenizer_.encode_into(row.a, row.b, how, encoding_);
    else
      tokenizer_.encode_into(row.a, how, encoding_);
    out_.truncated += encoding_.truncated;
    add(encoding_);
    if (data_.problem == Problem::kRegression) {
      out_.values.push_back(data_.labeled ? float(row.value) : NAN);
    } else if (data_.problem == Problem::kMultiLabel) {
      const size_t first = out_.values.size();
      out_.values.resize(first + data_.labels.size(), data_.labeled ? 0.0f : NAN);
      for (const int32_t label : row.labels) out_.values[first + size_t(label)] = 1;
    } else {
      out_.targets.push_back(row.labels.empty() ? -1 : row.labels[0]);
    }
    end_targets();
  }

  void add(const TaggedSentence& sentence) {
    const JoinedWords joined(sentence.words);
    EncodeOptions how{.max_length = options_.max_length};
    tokenizer_.encode_into(joined.text, how, encoding_);
    std::vector<Encoding> windows;
    if (encoding_.truncated) {
      how.stride = std::min(options_.stride, options_.max_length / 4);
      windows = tokenizer_.encode_windows(joined.text, how);
    }
    const std::span<const Encoding> all = windows.empty() ? std::span(&encoding_, 1) : std::span(windows);
    // Of each word, the window and token with the most tokens on its poorer side.
    struct Choice {
      size_t window = 0, token = 0, context = 0;
      bool found = false;
    };
    std::vector<Choice> choices(sentence.words.size());
    for (size_t w = 0; w < all.size(); ++w) {
      std::optional<size_t> last;
      for (size_t t = 0; t < all[w].size(); ++t) {
        if (all[w].special(t)) continue;
        const std::optional<size_t> word = joined.word_of(all[w].offsets[t]);
        if (!word || word == last) continue;
        last = word;
        // A window may begin in the middle of a word.
        if (all[w].offsets[t].begin > joined.words[*word].begin) continue;
        const size_t context = std::min(t, all[w].size() - 1 - t);
        if (Choice& choice = choices[*word]; !choice.found || context > choice.context)
          choice = {w, t, context, true};
      }
    }
    for (size_t w = 0; w < all.size(); ++w) {
      add(all[w]);
      for (size_t word = 0; word < choices.size(); ++word)
        if (choices[word].found && choices[word].window == w) {
          out_.rows.push_back(int32_t(choices[word].token));
          out_.targets.push_back(sentence.tags.empty() ? -1 : sentence.tags[word]);
          out_.words.push_back(out_.data_words + word);
        }
      end_targets();
    }
    out_.data_words += sentence.words.size();
  }

  void add(const SquadQuestion& q) {
    std::string_view question = q.question;
    tokenizer_.encode_into(question,
                           {.max_length = std::min(options_.max_question_tokens, options_.max_length / 2),
                            .add_special_tokens = false},
                           encoding_);
    if (encoding_.truncated) {
      ++out_.truncated;
      question = text_at(question, {0, encoding_.offsets.empty() ? 0 : encoding_.offsets.back().end});
    }
    EncodeOptions how{.max_length = options_.max_length, .truncate = Truncate::kOnlySecond};
    tokenizer_.encode_into(question, q.context, how, encoding_);
    if (!encoding_.truncated) return add_window(encoding_, q);
    const auto room = size_t(std::count(encoding_.sequences.begin(), encoding_.sequences.end(), 1));
    how.stride = std::min(options_.stride, room / 2);
    for (const Encoding& window : tokenizer_.encode_windows(question, q.context, how)) add_window(window, q);
  }

  void add_window(const Encoding& window, const SquadQuestion& q) {
    const auto cls = std::find(window.ids.begin(), window.ids.end(), tokenizer_.cls_id());
    size_t first = cls == window.ids.end() ? 0 : size_t(cls - window.ids.begin()), last = first;
    if (!q.answers.empty()) {
      const size_t begin = q.answers[0].start, end = begin + CodePoints(q.answers[0].text).size();
      const auto in_context = [](int8_t sequence) { return sequence == 1; };
      const auto from = std::find_if(window.sequences.begin(), window.sequences.end(), in_context);
      const auto to = std::find_if(window.sequences.rbegin(), window.sequences.rend(), in_context);
      if (from != window.sequences.end()) {
        const auto left = size_t(from - window.sequences.begin());
        const auto right = window.size() - 1 - size_t(to - window.sequences.rbegin());
        if (window.offsets[left].begin <= begin && window.offsets[right].end >= end) {
          first = left, last = right;
          while (first < right && window.offsets[first].end <= begin) ++first;
          while (last > first && window.offsets[last].begin >= end) --last;
        }
      }
    }
    add(window);
    for (const size_t place : {first, last}) out_.targets.push_back(data_.labeled ? int32_t(place) : -1);
    end_targets();
  }

  const Dataset& data_;
  const Tokenizer& tokenizer_;
  const EncodeTasksOptions& options_;
  Encoding encoding_;
  EncodedTasks& out_;
};

}  // namespace

void encode_tasks(const Dataset& data, const Tokenizer& tokenizer, const EncodeTasksOptions& options,
                  EncodedTasks& into) {
  TaskEncoder(data, tokenizer, options, into).add_all();
}

uint64_t EncodedTasks::checksum() const {
  uint64_t sum = 0;
  const auto chain = [&](const auto& numbers) { sum = io::checksum(std::as_bytes(std::span(numbers)), sum); };
  chain(ids), chain(types), chain(starts), chain(rows), chain(target_starts);
  return sum;
}

JoinedWords::JoinedWords(const std::vector<std::string>& all) {
  uint32_t at = 0;
  for (const std::string& word : all) {
    if (!text.empty()) text += ' ', ++at;
    const auto length = uint32_t(CodePoints(word).size());
    words.push_back({at, at + length});
    text += word;
    at += length;
  }
}

std::optional<size_t> JoinedWords::word_of(Offset token) const {
  // A token may begin with the space before its word.
  const auto word =
      std::partition_point(words.begin(), words.end(), [&](const Offset& w) { return w.end <= token.begin; });
  if (word == words.end() || token.end <= word->begin) return {};
  return size_t(word - words.begin());
}

}  // namespace bertie
