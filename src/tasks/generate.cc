// Continuing a text, token by token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"
#include "core/random.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

void check(const GenerateOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature))
    throw Error(fmt::format("`temperature` {} is out of range", o.temperature), "0 for greedy, 0.7 or 1",
                "temperature");
  if (!(o.top_p > 0 && o.top_p <= 1))
    throw Error(fmt::format("`top_p` {} is out of range", o.top_p),
                "`top_p` above 0 and at most 1, such as 0.9", "top_p");
  if (!(o.repetition_penalty > 0) || std::isinf(o.repetition_penalty))
    throw Error(fmt::format("`repetition_penalty` {} is out of range", o.repetition_penalty),
                "1 for none, 1.2 for a little", "repetition_penalty");
}

// Chooses the next token. The order of work is transformers': penalty, temperature, top k, top p.
class Chooser {
 public:
  explicit Chooser(const GenerateOptions& options) : options_(options), random_(options.seed) {}

  int32_t operator()(std::span<const float> logits, std::span<const int32_t> before) {
    scores_.assign(logits.begin(), logits.end());
    if (options_.repetition_penalty != 1) punish(before);
    if (options_.temperature == 0)
      return int32_t(std::max_element(scores_.begin(), scores_.end()) - scores_.begin());
    return draw();
  }

 private:
  void punish(std::span<const int32_t> before) {
    const auto penalty = float(options_.repetition_penalty);
    seen_.assign(before.begin(), before.end());
    std::sort(seen_.begin(), seen_.end());
    seen_.erase(std::unique(seen_.begin(), seen_.end()), seen_.end());
    for (int32_t id : seen_) {
      float& score = scores_[size_t(id)];
      score = score < 0 ? score * penalty : score / penalty;
    }
  }

  int32_t draw() {
    order_.resize(scores_.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto likelier = [&](int32_t a, int32_t b) {
      const float x = scores_[size_t(a)], y = scores_[size_t(b)];
      return x > y || (x == y && a < b);
    };
    size_t count = order_.size();
    if (options_.top_k > 0 && options_.top_k < count) {
      count = options_.top_k;
      std::partial_sort(order_.begin(), order_.begin() + ptrdiff_t(count), order_.end(), likelier);
    } else {
      std::sort(order_.begin(), order_.end(), likelier);
    }
    weights_.resize(count);
    const double most = scores_[size_t(order_[0])];
    for (size_t i = 0; i < count; ++i)
      weights_[i] = std::exp((double(scores_[size_t(order_[i])]) - most) / options_.temperature);
    double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    if (options_.top_p < 1) {  // as few as reach top_p together
      double reached = 0;
      size_t kept = 0;
      while (kept < count && (kept == 0 || reached < options_.top_p * sum)) reached += weights_[kept++];
      count = kept, sum = reached;
    }
    double left = (random_.next() + random_.next() * 0x1p-32) * 0x1p-32 * sum;
    for (size_t i = 0; i + 1 < count; ++i)
      if ((left -= weights_[i]) < 0) return order_[i];
    return order_[count - 1];
  }

  const GenerateOptions& options_;
  Random random_;
  std::vector<float> scores_;
  std::vector<double> weights_;
  std::vector<int32_t> order_, seen_;
};

// Text as it grows, in whole characters: what ends within one waits for the next token.
class GrowingText {
 public:
  GrowingText(const Tokenizer& tokenizer, std::span<const int32_t> prompt)
      : tokenizer_(tokenizer), ids_(prompt.begin(), prompt.end()), read_(prompt.size()) {}

  // What became readable with this token.
  std::string add(int32_t id) {
    ids_.push_back(id);
    std::string more = unread();
    if (more.ends_with("\uFFFD")) return {};
    from_ = read_, read_ = ids_.size();
    return more;
  }
  // What is left at the end, whole or not.
  std::string rest() const { return unread(); }

 private:
  // The tokens before are decoded with the new ones: how a token is written depends on them.
  std::string unread() const {
    const std::span<const int32_t> all = ids_;
    const std::string known = tokenizer_.decode(all.subspan(from_, read_ - from_)),
                      whole = tokenizer_.decode(all.subspan(from_));
    return whole.size() > known.size() ? whole.substr(known.size()) : std::string();
  }

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  size_t from_ = 0, read_;
};

// One text on its way.
struct Continuing {
  std::vector<int32_t> ids;  // prompt and what was made
  size_t read = 0;           // of them
  bool done = false;
  Chooser choose;
  GrowingText growing;
  Generation out;

  Continuing(const Tokenizer& tokenizer, const GenerateOptions& options, std::vector<int32_t> prompt)
      : ids(std::move(prompt)), choose(options), growing(tokenizer, ids) {
    out.prompt_tokens = ids.size();
  }
  bool tell(const GenerateOptions& options, const std::string& more) {
    out.text += more;
    return more.empty() || !options.on_text || options.on_text(more);
  }
  void end(FinishReason reason) { out.finish_reason = reason, done = true; }
};

constexpr size_t kTogether = 8;  // texts: beyond it, weights are no longer what takes the time

}  // namespace

std::vector<Generation> TextModel::generate(const Texts& prompts, const GenerateOptions& options) const {
  require(Head::kCausalLm);
  check(options);
  if (options.on_text && prompts.size() > 1)
    throw Error("on_text is for one prompt", "generate them one by one, or without it");
  const Config& config = model().config();
  const size_t most = std::min(state_->head_length(), config.max_tokens());
  std::vector<int32_t> stop = options.stop_ids;
  if (stop.empty() && config.eos_id >= 0) stop.push_back(config.eos_id);
  const auto worker = state_->take_worker();
  std::vector<Generation> all;
  for (size_t first = 0; first < prompts.size(); first += kTogether) {
    std::vector<Continuing> texts;
    for (size_t p = first; p < std::min(first + kTogether, prompts.size()); ++p) {
      tokenizer().encode_into(prompts[p], {}, worker->encoding);
      std::vector<int32_t> ids = worker->encoding.ids;
      if (ids.empty()) {  // from nothing: as after an end of text
        const int32_t begin = config.bos_id >= 0 ? config.bos_id : config.eos_id;
        if (begin < 0)
          throw Error("the prompt is empty and the model has no token to begin with", "a word or two");
        ids.push_back(begin);
      }
      size_t cut = 0;
      if (ids.size() > most) {  // the end of the prompt, and room for what is to come
        const size_t keep = most - std::min(options.max_new_tokens, most / 2);
        cut = ids.size() - keep;
        ids.erase(ids.begin(), ids.end() - ptrdiff_t(keep));
      }
      texts.emplace_back(tokenizer(), options, std::move(ids)).out.prompt_truncated = cut;
    }
    Cache cache(model(), texts.size());
    std::vector<int32_t> ids, offsets, last;
    while (true) {
      ids.clear(), last.clear(), offsets.assign(1, 0);
      for (Continuing& t : texts) {
        if (!t.done && t.out.ids.size() >= options.max_new_tokens) t.end(FinishReason::kMaxNewTokens);
        if (!t.done && t.ids.size() > most) t.end(FinishReason::kModelLength);
        if (!t.done) {
          ids.insert(ids.end(), t.ids.begin() + ptrdiff_t(t.read), t.ids.end());
          t.read = t.ids.size();
          last.push_back(int32_t(ids.size()) - 1);
        }
        offsets.push_back(int32_t(ids.size()));
      }
      if (ids.empty()) break;
      const Output& output =
          worker->run.forward({.ids = ids, .offsets = offsets},
                              {.last_hidden = false, .head = Head::kCausalLm, .rows = last}, cache);
      check_finite(output.logits);
      if (options.progress) options.progress(all.size(), prompts.size());
      size_t row = 0;
      for (Continuing& t : texts) {
        if (t.done) continue;
        const int32_t id = t.choose(output.logits[row++], t.ids);
        t.ids.push_back(id);
        t.out.ids.push_back(id);
        if (std::find(stop.begin(), stop.end(), id) != stop.end())
          t.end(FinishReason::kEndOfText);
        else if (!t.tell(options, t.growing.add(id)))
          t.end(FinishReason::kByCaller);
      }
    }
    for (Continuing& t : texts) {
      if (t.out.finish_reason != FinishReason::kByCaller) t.tell(options, t.growing.rest());
      all.push_back(std::move(t.out));
    }
    if (options.progress) options.progress(all.size(), prompts.size());
  }
  return all;
}

Generation TextModel::generate(std::string_view prompt, const GenerateOptions& options) const {
  return std::move(generate(Texts(std::span(&prompt, 1)), options)[0]);
}

}  // namespace bertie
