// Learning: a forward pass that keeps what the backward pass needs, and back. BERT and its family are a trunk
// with heads; the encoder-decoder is two trunks, whose output is a language model's.
#include "model/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/checked.h"
#include "model/access.h"
#include "model/heads.h"
#include "model/nearby.h"
#include "model/parameters.h"
#include "model/rename.h"
#include "model/transformer_weights.h"
#include "model/trunk.h"

namespace bertie {
namespace {

// What both learners are made of. W is Weights or TransformerWeights.
template <class W>
class NetworkLearner : public Learner {
 public:
  const std::vector<TensorSpec>& tensors() const override { return w_.tensors; }
  const std::vector<TensorSpec>& gradient_tensors() const override { return g_.tensors; }
  size_t memory() const override { return pass_.memory(); }
  Team& team() override { return pass_.team(); }

  void learn(const TrainingBatch& training, std::span<LossSum> sums, const Ready& ready) override {
    check(training, sums.size());
    run(training, sums, true, ready);
  }
  void evaluate(const TrainingBatch& training, std::span<LossSum> sums) override {
    check(training, sums.size());
    TrainingBatch without_dropout = training;
    without_dropout.dropout_seed.reset();
    run(without_dropout, sums, false, {});
  }

  void reserve(size_t sequences, size_t length, size_t targets) override {
    std::vector<int32_t> offsets(sequences + 1);
    for (size_t s = 0; s <= sequences; ++s) offsets[s] = int32_t(s * length);
    const std::vector<int32_t> rows(std::min(targets, sequences * length)), two(2 * sequences);
    const Batch largest{.ids = {}, .offsets = offsets};
    std::vector<LossTerm> terms;
    for (Head head : learned_heads()) {
      const bool answer = head == Head::kAnswer;
      terms.push_back({.head = head, .rows = rows, .targets = answer ? std::span<const int32_t>(two) : rows});
    }
    const TrainingBatch training{.batch = largest, .target = largest, .terms = terms, .dropout_seed = 0};
    std::vector<LossSum> sums(terms.size());
    start(training, true);
    pass_.arena.reset(pass_.arena.count([&] { compute(training, sums, true, {}); }));
  }

 protected:
  NetworkLearner(const auto& config, const LearnerOptions& options)
      : options_(options), w_(config, "config"), g_(config, "config"), pass_(options.threads) {}

  // Once both tables are declared: memory, and fresh parameters.
  void allocate_parameters(uint64_t seed, const std::function<float(const TensorSpec&)>& deviation_of) {
    w_.memory = allocate(w_.tensors, true), g_.memory = allocate_gradients(g_.tensors);
    const auto floats = [](const W& w) {
      return std::span(w.memory.template as<float>(), w.memory.size() / sizeof(float));
    };
    parameters_ = floats(w_), gradients_ = floats(g_);
    segments_ = segments_of(w_.tensors, parameters_.data());
    initialize(w_.tensors, seed, deviation_of);
  }

  virtual std::vector<Head> learned_heads() const = 0;
  virtual void check(const TrainingBatch& training, size_t sums) const = 0;
  // Says which segments are the products of a trunk's layers.
  void mark_hidden(const TrunkWeights& trunk) {
    for (const LayerWeights& l : trunk.layers) {
      const std::pair<const kernels::Linear*, size_t> products[] = {
          {&l.qkv, 3}, {&l.attention_out, 1}, {&l.cross.query, 1}, {&l.cross.key_value, 2}, {&l.cross.out, 1},
          {&l.up, 1},  {&l.down, 1}};
      for (const auto& [product, matrices] : products)
        for (Segment& s : segments_)
          if (product->outputs > 0 && parameters_.data() + s.first == product->floats())
            s.hidden = {matrices, product->outputs / matrices, product->inputs};
    }
  }

  // Outside of the arena's run: looks at the batch. Within it: forward, losses, and back.
  virtual void start(const TrainingBatch& training, bool learning) = 0;
  virtual void compute(const TrainingBatch& training, std::span<LossSum> sums, bool learning,
                       const Ready& ready) = 0;

  TrunkPass::Options trunk_options(const TrainingBatch& training, bool learning) const {
    return {.keep = learning,
            .recompute = options_.recompute,
            .frozen_layers = options_.frozen_layers,
            .dropout_seed = training.dropout_seed,
            .first_sequence = training.first_sequence};
  }
  // From where on gradients are final, once a layer's are.
  std::function<void(const LayerWeights&)> layer_ready(const Ready& ready) const {
    if (!ready) return {};
    return [this, &ready](const LayerWeights& g) { ready(size_t(g.qkv.floats() - gradients_.data())); };
  }

  LearnerOptions options_;
  W w_, g_;
  Pass pass_;

 private:
  void run(const TrainingBatch& training, std::span<LossSum> sums, bool learning, const Ready& ready) {
    if (training.batch.ids.empty() && training.target.ids.empty()) return;
    start(training, learning);
    pass_.products = learning && options_.bf16 ? kernels::Products::kAmx : kernels::Products::kFloat32;
    pass_.arena.run([&] { compute(training, sums, learning, ready); });
    if (learning && ready) ready(0);
  }
};

void check_sums(const TrainingBatch& training, size_t sums) {
  if (sums != training.terms.size())
    throw Error(fmt::format("{} sums for {} terms", sums, training.terms.size()));
}

class ModelLearner final : public NetworkLearner<Weights> {
 public:
  ModelLearner(const Config& config, const std::vector<Head>& heads, uint64_t seed,
               const LearnerOptions& options)
      : NetworkLearner(config, options), trunk_(w_.trunk, pass_) {
    for (Weights* w : {&w_, &g_}) {
      w->config.architecture.clear();  // its heads say what it is
      w->heads = heads;
      w->has_pooler = std::any_of(heads.begin(), heads.end(), [&](Head h) { return uses_pooled(*w, h); });
      w->declare();
    }
    const float less = w_.family->norm_first ? 1 / std::sqrt(2 * float(config.layers)) : 1.0f;
    allocate_parameters(seed, [&](const TensorSpec& t) {
      const auto* rows = std::get_if<TensorSpec::Rows>(&t.to);
      const auto& layers = w_.trunk.layers;
      const bool adds = rows && std::any_of(layers.begin(), layers.end(), [&](const LayerWeights& l) {
                          return rows->linear == &l.attention_out || rows->linear == &l.down;
                        });
      return float(config.initializer_range) * (adds ? less : 1.0f);
    });
    if (options.nearby) look_nearby(w_.tensors, w_.trunk, float(config.initializer_range));
    set_rates();
    mark_hidden(w_.trunk);
  }

  void save(const std::filesystem::path& directory, Precision precision) const override {
    save_weights(w_, directory, precision);
  }

  std::vector<std::string> load(const ModelFiles& files, const LearnerLoad& how) override {
    const Family& f = *w_.family;
    const io::SafeTensors tensors = open_weights(files, f.model_type);
    Checkpoint checkpoint(tensors, files.name(), f.prefix, std::string(f.embeddings.word) + ".weight");
    const std::string pooler = std::string(f.prefix) + std::string(f.pooler);
    return load_parameters(names_in(how.layers), checkpoint, [&](const TensorSpec& t, bool there) {
      const bool head = !t.name.starts_with(f.prefix);
      return there ? head && how.fresh_heads : head || (!f.pooler.empty() && t.name.starts_with(pooler));
    });
  }

  Model view() const override {
    w_.decoder_learned();
    return WeightsAccess::view(w_);
  }

 protected:
  std::vector<Head> learned_heads() const override { return w_.heads; }

  void check(const TrainingBatch& training, size_t sums) const override {
    check_batch(training.batch, w_.trunk.embeddings, w_.config.max_tokens(), nullptr);
    check_sums(training, sums);
    for (const LossTerm& term : training.terms) check_term(w_, training.batch, term);
  }

  void start(const TrainingBatch& training, bool learning) override {
    // Spans stay between 0 and all positions, as in Sukhbaatar et al.: a step may have gone beyond.
    for (const LayerWeights& l : w_.trunk.layers)
      for (size_t h = 0; learning && l.mechanism.spans && h < w_.config.heads; ++h)
        l.mechanism.spans[h] = std::clamp(l.mechanism.spans[h], 0.0f, 1.0f);
    TrunkPass::Options options = trunk_options(training, learning);
    if (training.batch.ids.empty())  // reserving: for all rows
      read_ = {};
    else
      read_.find(w_, training.batch, training.terms);
    options.wanted = read_.rows;
    trunk_.start(training.batch, options);
  }

  void compute(const TrainingBatch& training, std::span<LossSum> sums, bool learning,
               const Ready& ready) override {
    const Matrix<const float> hidden = trunk_.forward();
    const Matrix<float> d = learning ? trunk_.take_gradient() : Matrix<float>();
    const HeadLoss heads{.w = w_,
                         .gradient = learning ? &g_ : nullptr,
                         .dropout = trunk_.dropout(),
                         .places = read_.places,
                         .pass = pass_};
    for (size_t i = 0; i < training.terms.size(); ++i)
      sums[i] += heads.run(training.batch, training.terms[i], hidden, d);
    if (!learning) return;
    // Layers that share weights are not done before the first of them.
    trunk_.backward(g_.trunk, d, {}, layers_are_shared() ? layer_ready({}) : layer_ready(ready));
  }

 private:
  // The tensors under the names that they have in a model of which these layers are taken.
  std::vector<TensorSpec> names_in(const std::vector<size_t>& layers) const {
    std::vector<TensorSpec> tensors = w_.tensors;
    if (layers.empty() || !w_.family->layer_of_group.empty()) return tensors;
    const std::string prefix = std::string(w_.family->prefix) + std::string(w_.family->layer);
    for (TensorSpec& t : tensors) {
      if (!t.name.starts_with(prefix)) continue;
      const size_t end = t.name.find('.', prefix.size());
      size_t layer = 0;
      parse_number(std::string_view(t.name).substr(prefix.size(), end - prefix.size()), layer);
      t.name.replace(prefix.size(), end - prefix.size(), std::to_string(layers.at(layer)));
    }
    return tensors;
  }

  bool layers_are_shared() const { return w_.trunk.layers.size() < w_.trunk.depth(); }

  // The rates of embeddings and layers, which the flat block begins with; what comes after them is the
  // heads'.
  void set_rates() {
    const size_t depth = w_.trunk.layers.size();
    if (options_.frozen_layers && layers_are_shared())
      throw Error("layers that share their weights cannot be frozen one by one", "no `freeze`", "freeze");
    if (options_.frozen_layers > depth)
      throw Error(
          fmt::format("`freeze` {} is more than the model's {} layers", *options_.frozen_layers, depth),
          fmt::format("`freeze` {}, which leaves the head alone to learn", depth), "freeze");
    for (Segment& s : segments_) {
      size_t level = 0;  // 0 embeddings, l + 1 layer l, depth + 1 heads
      const float* const place = parameters_.data() + s.first;
      for (const LayerWeights& l : w_.trunk.layers) level += place >= l.qkv.floats();
      if (depth > 0 && place > w_.trunk.layers.back().output_norm.beta) ++level;
      s.rate = std::pow(options_.layer_decay, double(depth + 1 - level));
      if (options_.frozen_layers && level <= *options_.frozen_layers) s.rate = 0;
    }
  }

  TrunkPass trunk_;
  RowsRead read_;
};

// What the output adds is no parameter in transformers, though its checkpoints have it: it stays what it is.
const std::string kConstant = "final_logits_bias";

class TransformerLearner final : public NetworkLearner<TransformerWeights> {
 public:
  TransformerLearner(const TransformerConfig& config, uint64_t seed, const LearnerOptions& options)
      : NetworkLearner(config, options), source_(w_.encoder, pass_), target_(w_.decoder, pass_) {
    w_.declare(), g_.declare();
    w_.place();
    allocate_parameters(seed, [](const TensorSpec&) { return 0.02f; });
    mark_hidden(w_.encoder), mark_hidden(w_.decoder);
    for (const TensorSpec& t : g_.tensors)
      if (t.name != kConstant) learned_.push_back(t);
  }

  const std::vector<TensorSpec>& gradient_tensors() const override { return learned_; }

  void save(const std::filesystem::path& directory, Precision precision) const override {
    save_checkpoint(directory, precision, w_.tensors, "", w_.config.to_json());
  }

  std::vector<std::string> load(const ModelFiles& files, const LearnerLoad&) override {
    const io::SafeTensors tensors = io::SafeTensors::open(files);
    Checkpoint checkpoint(tensors, files.name(), "model.", "shared.weight");
    return load_parameters(w_.tensors, checkpoint,
                           [](const TensorSpec& t, bool there) { return !there && t.name == kConstant; });
  }

 protected:
  std::vector<Head> learned_heads() const override { return {Head::kCausalLm}; }

  void check(const TrainingBatch& training, size_t sums) const override {
    const TransformerConfig& c = w_.config;
    check_batch(training.batch, w_.encoder.embeddings, c.positions, nullptr);
    check_batch(training.target, w_.decoder.embeddings, c.positions, nullptr);
    if (training.batch.size() != training.target.size())
      throw Error(fmt::format("{} targets for {} sources", training.target.size(), training.batch.size()));
    check_sums(training, sums);
    const size_t tokens = training.target.ids.size();
    for (const LossTerm& term : training.terms) {
      if (term.head != Head::kCausalLm)
        throw Error("an encoder-decoder learns to write its target: Head::kCausalLm");
      check_kind(term);
      check_targets(term, term.rows.empty() ? tokens : term.rows.size(), c.vocabulary, tokens);
    }
  }

  void start(const TrainingBatch& training, bool learning) override {
    TrunkPass::Options options = trunk_options(training, learning);
    source_.start(training.batch, options);
    target_.start(training.target, options);
  }

  void compute(const TrainingBatch& training, std::span<LossSum> sums, bool learning,
               const Ready& ready) override {
    if (training.target.offsets.back() == 0) return;
    const Matrix<const float> read = source_.forward();
    target_.set_source({.states = read, .offsets = source_.offsets()});
    const Matrix<const float> written = target_.forward();
    const Matrix<float> d_source = learning ? source_.take_gradient() : Matrix<float>();
    const Matrix<float> d = learning ? target_.take_gradient() : Matrix<float>();
    for (size_t i = 0; i < training.terms.size(); ++i) sums[i] += loss(training.terms[i], written, d);
    if (!learning) return;
    target_.backward(g_.decoder, d, d_source, layer_ready(ready));
    source_.backward(g_.encoder, d_source, {}, layer_ready(ready));
  }

 private:
  LossSum loss(const LossTerm& term, Matrix<const float> states, Matrix<float> d) {
    const Arena::Scope scope(pass_.arena);
    std::span<const int32_t> rows = term.rows;
    if (rows.empty()) {
      int32_t* const all = pass_.arena.take<int32_t>(states.rows());
      for (size_t i = 0; i < states.rows() && !pass_.counting(); ++i) all[i] = int32_t(i);
      rows = {all, states.rows()};
    }
    const Matrix<float> x = pass_.gather_rows(states, rows);
    const Matrix<float> dx = d.empty() ? Matrix<float>() : pass_.take(rows.size(), states.cols());
    const LossSum sum = vocabulary_loss(
        {.x = x, .table = words(w_), .bias = w_.logits_bias, .dx = dx, .d_table = words(g_)}, term, pass_);
    if (!d.empty()) scatter_rows(dx, rows, d, pass_);
    return sum;
  }
  static Matrix<float> words(const TransformerWeights& w) {
    return {table_numbers(w.word), w.config.vocabulary, w.config.hidden};
  }

  std::vector<TensorSpec> learned_;  // of g_
  TrunkPass source_, target_;
};

}  // namespace

Model Learner::view() const { throw Error("what learns here is no Model"); }

void check_finite(Learner& learner, const std::string& from, const std::string& field) {
  const auto finite = [](std::span<const float> numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
  };
  if (finite(learner.parameters())) return;
  for (const TensorSpec& tensor : learner.tensors()) {
    std::vector<float> numbers(tensor.elements());
    read_back(tensor, 0, numbers);
    if (!finite(numbers))
      throw Error(fmt::format("{}: the tensor {} has numbers that are not finite", from, tensor.name),
                  "a checkpoint from before that happened", field);
  }
}

std::unique_ptr<Learner> make_learner(const Config& config, const std::vector<Head>& heads, uint64_t seed,
                                      const LearnerOptions& options) {
  config.check("config");
  const Family& family = family_of(config.model_type, "config");
  for (Head head : heads)
    if (!has_head(family, head))
      throw Error(fmt::format("models of type {} have no {} head", config.model_type, name_of(head).name),
                  head == Head::kNextSentence ? "pre-train with mlm alone" : "");
  return std::make_unique<ModelLearner>(config, heads, seed, options);
}

std::unique_ptr<Learner> make_learner(const TransformerConfig& config, uint64_t seed,
                                      const LearnerOptions& options) {
  config.check("config");
  return std::make_unique<TransformerLearner>(config, seed, options);
}

}  // namespace bertie
