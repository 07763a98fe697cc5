#include "train/data/task_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "bertie/utf8.h"
#include "core/checked.h"
#include "core/random.h"
#include "io/json.h"

namespace bertie {
namespace {

constexpr uint64_t kHashStart = 0xCBF29CE484222325, kHashStep = 0x100000001B3;  // FNV-1a

// Sequences with their targets, packed.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<int8_t> types;
  std::vector<size_t> starts{0};
  std::vector<int32_t> rows,
      targets;  // of tags: places in the sequence, and what stands there; else targets alone
  std::vector<size_t> target_starts{0};
  std::vector<float> values;  // (sequences, labels) of several labels and numbers
  size_t truncated = 0, longest = 0;

  size_t size() const { return starts.size() - 1; }
  void add(const Encoding& encoding) {
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    for (const int32_t type : encoding.types) types.push_back(int8_t(type));
    starts.push_back(ids.size());
    longest = std::max(longest, encoding.size());
  }
  void end_targets() { target_starts.push_back(targets.size()); }
};

class Encoder {
 public:
  Encoder(const Dataset& data, const Tokenizer& tokenizer, const TaskSourceOptions& options)
      : data_(data), tokenizer_(tokenizer), options_(options) {}

  Encoded operator()() {
    for (const TextExample& row : data_.texts) add(row);
    for (const TaggedSentence& sentence : data_.sentences) add(sentence);
    for (const SquadQuestion& question : data_.questions) add(question);
    return std::move(out_);
  }

 private:
  void add(const TextExample& row) {
    const EncodeOptions how{.max_length = options_.max_length};
    if (data_.kind == TaskKind::kPair)
      tokenizer_.encode_into(row.a, row.b, how, encoding_);
    else
      tokenizer_.encode_into(row.a, how, encoding_);
    out_.truncated += encoding_.truncated;
    out_.add(encoding_);
    if (data_.problem == Problem::kRegression) {
      out_.values.push_back(float(row.value));
    } else if (data_.problem == Problem::kMultiLabel) {
      const size_t first = out_.values.size();
      out_.values.resize(first + data_.labels.size());
      for (const int32_t label : row.labels) out_.values[first + size_t(label)] = 1;
    } else {
      out_.targets.push_back(row.labels.at(0));
    }
    out_.end_targets();
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
      out_.add(all[w]);
      for (size_t word = 0; word < choices.size(); ++word)
        if (choices[word].found && choices[word].window == w) {
          out_.rows.push_back(int32_t(choices[word].token));
          out_.targets.push_back(sentence.tags[word]);
        }
      out_.end_targets();
    }
  }

  void add(const SquadQuestion& q) {
    std::string_view question = q.question;
    tokenizer_.encode_into(
        question, {.max_length = options_.max_question_tokens, .add_special_tokens = false}, encoding_);
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
    out_.add(window);
    out_.targets.push_back(int32_t(first)), out_.targets.push_back(int32_t(last));
    out_.end_targets();
  }

  const Dataset& data_;
  const Tokenizer& tokenizer_;
  const TaskSourceOptions& options_;
  Encoding encoding_;
  Encoded out_;
};

const char* term_name(TaskKind kind) {
  return kind == TaskKind::kTag ? "word" : kind == TaskKind::kAnswer ? "answer" : "row";
}

class Tasks final : public TaskSource {
 public:
  Tasks(const Dataset& data, const Tokenizer& tokenizer, const TaskSourceOptions& options)
      : all_(Encoder(data, tokenizer, options)()),
        columns_(data.problem == Problem::kMultiLabel ? data.labels.size() : 1),
        seed_(options.seed),
        terms_{{.name = term_name(data.kind),
                .head = head_of(data.kind),
                .has_accuracy = data.kind == TaskKind::kTag || data.kind == TaskKind::kAnswer ||
                                data.problem != Problem::kRegression,
                .class_weights = options.class_weights,
                .smoothing = options.smoothing}} {
    if (all_.size() == 0) throw Error(fmt::format("{}: there is nothing to learn from", data.file));
    for (const int32_t id : all_.ids) hash(uint64_t(id));
    for (const size_t start : all_.starts) hash(start);
    for (const int32_t target : all_.targets) hash(uint64_t(target));
    for (const float value : all_.values) hash(std::bit_cast<uint32_t>(value));
    hash(seed_);
  }

  size_t sequences() const override { return all_.size(); }
  size_t truncated() const override { return all_.truncated; }
  size_t longest() const override { return all_.longest; }
  uint64_t tokens() const override { return all_.ids.size(); }
  std::span<const TermSpec> terms() const override { return terms_; }

  void begin_step(size_t count) override {
    step_ = next_;
    next_ += count;
  }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    BatchStorage::Term& term = into.terms[0];
    const auto append = [](auto& to, const auto& from, size_t begin, size_t end) {
      to.insert(to.end(), from.begin() + ptrdiff_t(begin), from.begin() + ptrdiff_t(end));
    };
    for (uint64_t at = step_ + first; at < step_ + first + count; ++at) {
      const size_t i = shuffled(at % sequences(), sequences(), seed_, at / sequences());
      for (size_t t = all_.target_starts[i]; t < all_.target_starts[i + 1] && !all_.rows.empty(); ++t)
        term.rows.push_back(into.offsets.back() + all_.rows[t]);
      append(term.targets, all_.targets, all_.target_starts[i], all_.target_starts[i + 1]);
      if (!all_.values.empty()) append(term.values, all_.values, i * columns_, (i + 1) * columns_);
      append(into.ids, all_.ids, all_.starts[i], all_.starts[i + 1]);
      append(into.types, all_.types, all_.starts[i], all_.starts[i + 1]);
      into.offsets.push_back(int32_t(into.ids.size()));
    }
  }

  std::string cursor() const override { return fmt::format("{}{}", signature(), next_); }
  void seek(const std::string& cursor) override {
    const std::string mine = signature();
    uint64_t at = 0;
    if (!cursor.starts_with(mine) || !parse_number(std::string_view(cursor).substr(mine.size()), at))
      throw Error(fmt::format("{} is not a position in this data", io::quote(cursor)),
                  "the same data, model and `seed` as the run had", "train_file");
    next_ = at;
  }
  double epochs() const override { return double(next_) / double(sequences()); }

 private:
  void hash(uint64_t value) { hash_ = (hash_ ^ value) * kHashStep; }
  std::string signature() const { return fmt::format("task:{}:{:016x}:", sequences(), hash_); }

  const Encoded all_;
  size_t columns_;  // of all_.values
  uint64_t seed_, hash_ = kHashStart;
  const std::vector<TermSpec> terms_;
  uint64_t step_ = 0, next_ = 0;
};

}  // namespace

std::unique_ptr<TaskSource> make_task_source(const Dataset& data, const Tokenizer& tokenizer,
                                             const TaskSourceOptions& options) {
  return std::make_unique<Tasks>(data, tokenizer, options);
}

Head head_of(TaskKind kind) {
  return kind == TaskKind::kTag ? Head::kTag : kind == TaskKind::kAnswer ? Head::kAnswer : Head::kClassify;
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
