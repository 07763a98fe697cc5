// Loading, copying and running; each task has its own file.
#include "bertie/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "model/family.h"
#include "tasks/pipeline_state.h"

namespace bertie {

Pipeline::Pipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pipeline::Pipeline(const Pipeline& o)
    : state_(std::make_unique<State>(o.state_->shared, o.state_->run.threads(), o.state_->max_length)) {
  state_->progress = o.state_->progress;
}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline other) noexcept { return state_.swap(other.state_), *this; }
Pipeline::~Pipeline() = default;

Pipeline Pipeline::load(const std::filesystem::path& directory, int threads) {
  auto shared = std::make_shared<const Shared>(Shared{load_reader(directory)});
  const size_t length =
      std::min(shared->reader.model.config().max_tokens(), shared->reader.tokenizer.model_max_length());
  return Pipeline(std::make_unique<State>(std::move(shared), threads, length));
}

void Pipeline::on_progress(std::function<void(size_t, size_t)> callback) {
  state_->progress = std::move(callback);
}
size_t Pipeline::truncated() const { return state_->truncated; }
const Tokenizer& Pipeline::tokenizer() const { return state_->tokenizer(); }
const Model& Pipeline::model() const { return state_->model(); }
size_t Pipeline::max_length() const { return state_->max_length; }
int Pipeline::threads() const { return state_->run.threads(); }
void Pipeline::need(Head head) const { state_->need(head); }

void Pipeline::set_max_length(size_t tokens) {
  const size_t most = model().config().max_tokens();
  if (tokens < 4 || tokens > most)
    throw Error(fmt::format("max_length {} is out of range: this model takes 4 to {} tokens", tokens, most));
  state_->max_length = tokens;
}

void Pipeline::State::need(Head head) const {
  if (model().has(head)) return;
  std::string can;
  for (Head other : kHeads)
    if (model().has(other))
      can += fmt::format("; it can {}: {}", name_of(other).verb, name_of(other).commands);
  if (can.empty() && !model().config().causal())
    can = "; it has no head at all, but it gives vectors: bertie embed, bertie similar";
  const std::string& architecture = model().config().architecture;
  throw Error(fmt::format("this checkpoint{} cannot {}",
                          architecture.empty() ? "" : fmt::format(" ({})", architecture), name_of(head).verb),
              fmt::format("a checkpoint …{}{}", name_of(head).suffix, can));
}

void Pipeline::State::add_cut(std::string_view text) {
  tokenizer().encode_into(text, {.max_length = max_length}, encoding);
  truncated += encoding.truncated;
  sequences.add(encoding);
}

void Pipeline::State::add_cut(const TextPair& pair) {
  tokenizer().encode_into(pair.a, pair.b, {.max_length = max_length}, encoding);
  truncated += encoding.truncated;
  sequences.add(encoding);
}

void Pipeline::State::work(const Work& w) {
  constexpr size_t kTokens = 1 << 16;
  need(w.head);
  truncated = 0;
  for (size_t first = 0, last = 0; first < w.inputs; first = last) {
    sequences.clear();
    owners.clear();
    left.clear();  // sequences of each input that are still to be run
    for (; last < w.inputs && (last == first || sequences.ids.size() < kTokens); ++last) {
      w.add(last);
      left.push_back(sequences.size() - owners.size());
      owners.resize(sequences.size(), last);
    }
    size_t done = first + size_t(std::count(left.begin(), left.end(), size_t{0}));
    batches.run(
        run, sequences, w.head,
        [&](size_t sequence, Matrix<const float> rows) {
          w.use(owners[sequence], sequence, rows);
          done += --left[owners[sequence] - first] == 0;
        },
        [&] {
          if (progress) progress(done, w.inputs);
        });
    if (!w.finish) continue;
    size_t sequence = 0;
    for (size_t input = first; input < last; ++input) {
      const size_t begin = sequence;
      while (sequence < owners.size() && owners[sequence] == input) ++sequence;
      w.finish(input, begin, sequence);
    }
  }
}

void softmax(std::span<float> numbers) {
  if (numbers.empty()) return;
  const float most = *std::max_element(numbers.begin(), numbers.end());
  double sum = 0;
  for (float x : numbers) sum += std::exp(double(x) - double(most));
  for (float& x : numbers) x = float(std::exp(double(x) - double(most)) / sum);
}

}  // namespace bertie
