// Loading, handles and workers; each task has its own file.
#include "bertie/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "model/family.h"
#include "model/trunk.h"
#include "tasks/quantized_model.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// The fewest tokens of which one can be the text's.
constexpr size_t kShortest = 3;

LoadedModel load_model(const ModelFiles& files, const LoadOptions& options) {
  const ModelFiles inside = transformer_files(files);
  const bool quantize = options.format == WeightFormat::kInt8;
  Model model = Model::load(inside, {.strict = options.strict,
                                     .warning = options.warning,
                                     .format = quantize ? WeightFormat::kFloat32 : options.format});
  Tokenizer tokenizer = Tokenizer::load(inside);
  check_vocabulary(tokenizer, model.config(), files.name());
  if (quantize) model = quantized(model, tokenizer);
  auto [modules, error] = load_modules(files, model, &tokenizer, options.strict);
  return {std::move(tokenizer), std::move(model), std::move(modules), std::move(error)};
}

std::shared_ptr<const WorkerPool> make_workers(const std::shared_ptr<const LoadedModel>& loaded,
                                               int threads) {
  return std::make_shared<const WorkerPool>(loaded, threads);
}

}  // namespace

WorkerPool::WorkerPool(std::shared_ptr<const LoadedModel> loaded, int threads)
    : loaded_(std::move(loaded)), threads_(threads > 0 ? threads : available_threads()) {
  idle_.push_back(std::make_unique<Worker>(loaded_->model, threads_));
}

WorkerPool::Lease WorkerPool::take(std::span<const WhichHead> off) const {
  std::unique_ptr<Worker> worker;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) worker = std::move(idle_.back()), idle_.pop_back();
  }
  if (!worker) worker = std::make_unique<Worker>(loaded_->model, threads_);
  worker->run.switch_off(off);
  return Lease(*this, std::move(worker));
}

// More than a core's worth of them are not kept: each holds the memory of its largest batch.
void WorkerPool::put_back(std::unique_ptr<Worker> worker) const {
  std::lock_guard lock(mutex_);
  if (idle_.size() < size_t(available_threads())) idle_.push_back(std::move(worker));
}

TextModel::TextModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

TextModel load(const ModelFiles& files, const LoadOptions& options) {
  return TextModelAccess::make(std::make_shared<const LoadedModel>(load_model(files, options)), options);
}

TextModel TextModelAccess::make(std::shared_ptr<const LoadedModel> loaded, const LoadOptions& options) {
  auto workers = make_workers(loaded, options.threads);
  const TextModel model(
      std::make_shared<const TextModel::State>(TextModel::State{std::move(loaded), std::move(workers)}));
  return model.with_max_length(options.max_length);
}

TextModel TextModel::with_threads(int threads) const {
  State state = *state_;
  state.workers = make_workers(state.loaded, threads);
  return TextModel(std::make_shared<const State>(std::move(state)));
}

TextModel TextModel::with_max_length(size_t tokens) const {
  const size_t most = model().config().max_tokens();
  if (tokens != 0 && (tokens < kShortest || tokens > most))
    throw Error(fmt::format("`max_length` {} is out of range: this model takes {} to {} tokens", tokens,
                            kShortest, most),
                fmt::format("`max_length` {}", most), "max_length");
  State state = *state_;
  state.max_length = tokens;
  return TextModel(std::make_shared<const State>(std::move(state)));
}

TextModel TextModel::with_pooling(const Pooling& pooling) const {
  const Modules& modules = state_->loaded->modules;
  const size_t hidden = model().config().hidden, size = pooled_size(pooling, hidden);
  if (size == 0) throw Error("a vector needs one kind of pooling at least", "`pooling` mean", "pooling");
  if (!modules.dense.empty() && size != pooled_size(modules.pooling, hidden))
    throw Error(fmt::format("this model's dense modules take {} numbers, and not {}",
                            pooled_size(modules.pooling, hidden), size),
                "another `pooling` of the same size, or none", "pooling");
  State state = *state_;
  state.other_pooling = pooling;
  return TextModel(std::make_shared<const State>(std::move(state)));
}

TextModel TextModel::without(std::span<const WhichHead> heads) const {
  check_heads_exist(heads, model().config());
  State state = *state_;
  state.off.insert(state.off.end(), heads.begin(), heads.end());
  std::sort(state.off.begin(), state.off.end());
  state.off.erase(std::unique(state.off.begin(), state.off.end()), state.off.end());
  return TextModel(std::make_shared<const State>(std::move(state)));
}

const std::vector<WhichHead>& TextModel::heads_off() const { return state_->off; }
const Tokenizer& TextModel::tokenizer() const { return state_->tokenizer(); }
const Model& TextModel::model() const { return state_->model(); }
const Pooling& TextModel::pooling() const { return state_->pooling(); }
size_t TextModel::dimension() const { return state_->dimension(); }
size_t TextModel::max_length() const { return state_->embed_length(); }
size_t TextModel::task_max_length() const { return state_->head_length(); }
int TextModel::threads() const { return state_->workers->threads(); }
void TextModel::require(Head head) const { state_->require(head); }

size_t TextModel::State::dimension() const {
  const size_t hidden = model().config().hidden;
  return loaded->modules.dense.empty() ? pooled_size(pooling(), hidden) : loaded->modules.output_size(hidden);
}

size_t TextModel::State::embed_length() const {
  if (max_length > 0) return max_length;
  return bertie::max_length(loaded->modules, model().config().max_tokens(), tokenizer().model_max_length());
}

size_t TextModel::State::head_length() const {
  if (max_length > 0) return max_length;
  return std::min(model().config().max_tokens(), tokenizer().model_max_length());
}

void TextModel::State::require(Head head) const {
  if (model().has(head)) return;
  std::string can;
  for (Head other : kHeads)
    if (model().has(other))
      can += fmt::format("{}{}", can.empty() ? "; this one can " : ", ", name_of(other).verb);
  if (can.empty() && !model().config().causal()) can = "; this one has no head, but it gives vectors (embed)";
  const std::string& architecture = model().config().architecture;
  throw Error(fmt::format("this checkpoint{} cannot {}",
                          architecture.empty() ? "" : fmt::format(" ({})", architecture), name_of(head).verb),
              fmt::format("a checkpoint …{}{}", name_of(head).suffix, can));
}

void add_cut(Worker& worker, const Tokenizer& tokenizer, std::string_view text, size_t max_length) {
  tokenizer.encode_into(text, {.max_length = max_length}, worker.encoding);
  worker.sequences.add(worker.encoding);
}

void add_cut(Worker& worker, const Tokenizer& tokenizer, const TextPair& pair, size_t max_length) {
  tokenizer.encode_into(pair.a, pair.b, {.max_length = max_length}, worker.encoding);
  worker.sequences.add(worker.encoding);
}

void run_work(Worker& worker, const Work& work) {
  constexpr size_t kTokens = 1 << 16;
  Sequences& sequences = worker.sequences;
  std::vector<size_t>& owners = worker.owners;
  std::vector<size_t>& left = worker.left;  // sequences of each input that are still to be run
  for (size_t first = 0, last = 0; first < work.inputs; first = last) {
    sequences.clear();
    owners.clear();
    left.clear();
    for (; last < work.inputs && (last == first || sequences.ids.size() < kTokens); ++last) {
      work.add(last);
      left.push_back(sequences.size() - owners.size());
      owners.resize(sequences.size(), last);
    }
    size_t done = first + size_t(std::count(left.begin(), left.end(), size_t{0}));
    worker.batches.run(
        worker.run, sequences, work.head,
        [&](size_t sequence, Matrix<const float> rows) {
          work.use(owners[sequence], sequence, rows);
          done += --left[owners[sequence] - first] == 0;
        },
        [&] {
          if (work.progress) work.progress(done, work.inputs);
        });
    if (!work.finish) continue;
    size_t sequence = 0;
    for (size_t input = first; input < last; ++input) {
      const size_t begin = sequence;
      while (sequence < owners.size() && owners[sequence] == input) ++sequence;
      work.finish(input, begin, sequence);
    }
  }
}

void softmax(std::span<float> logits) {
  if (logits.empty()) return;
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(double(x) - double(most));
  for (float& x : logits) x = float(std::exp(double(x) - double(most)) / sum);
}

}  // namespace bertie
