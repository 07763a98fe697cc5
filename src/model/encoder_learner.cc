// Learning for BERT and its family: the forward pass of run.cc with what the way back needs kept, and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "kernels/embedding.h"
#include "model/embed.h"
#include "model/head_pass.h"
#include "model/heads.h"
#include "model/layer_pass.h"
#include "model/learner.h"
#include "model/parameters.h"
#include "model/weights.h"

namespace bertie {
namespace {

class EncoderLearner final : public Learner {
 public:
  EncoderLearner(const Config& config, const std::vector<Head>& heads, uint64_t seed,
                 const LearnerOptions& options)
      : options_(options),
        w_(config, "config"),
        g_(config, "config"),
        team_(options.threads > 0 ? options.threads : available_threads()) {
    for (Weights* w : {&w_, &g_}) {
      w->config.architecture.clear();  // its heads say what it is
      w->heads = heads;
      w->has_pooler = std::any_of(heads.begin(), heads.end(), [&](Head h) { return uses_pooled(*w, h); });
      w->declare();
    }
    w_.memory = allocate(w_.tensors, true), g_.memory = allocate_gradients(g_.tensors);
    const auto floats = [](const Weights& w) {
      return std::span(w.memory.as<float>(), w.memory.size() / sizeof(float));
    };
    parameters_ = floats(w_), gradients_ = floats(g_);
    segments_ = segments_of(w_.tensors, parameters_.data());
    const float less = w_.family->norm_first ? 1 / std::sqrt(2 * float(config.layers)) : 1.0f;
    initialise(w_.tensors, seed, [&](const TensorSpec& t) {
      const auto* rows = std::get_if<TensorSpec::Rows>(&t.to);
      const bool adds = rows && std::any_of(w_.layers.begin(), w_.layers.end(), [&](const LayerWeights& l) {
                          return rows->linear == &l.attention_out || rows->linear == &l.down;
                        });
      return adds ? less : 1.0f;
    });
  }

  const std::vector<TensorSpec>& tensors() const override { return w_.tensors; }
  const std::vector<TensorSpec>& gradient_tensors() const override { return g_.tensors; }
  size_t memory() const override { return arena_.capacity() + head_arena_.capacity(); }
  Team& team() override { return team_; }

  void learn(const TrainingBatch& training, std::span<LossSum> sums, const Ready& ready) override {
    pass(training, sums, &g_, ready);
  }
  void evaluate(const TrainingBatch& training, std::span<LossSum> sums) override {
    TrainingBatch dry = training;
    dry.dropout_seed.reset();
    pass(dry, sums, nullptr, {});
  }

  void reserve(size_t sequences, size_t length, size_t targets) override {
    const size_t tokens = sequences * length;
    positions_.reserve(tokens), types_.reserve(tokens), row_numbers_.reserve(tokens);
    std::vector<int32_t> offsets(sequences + 1);
    for (size_t s = 0; s <= sequences; ++s) offsets[s] = int32_t(s * length);
    const PassShape shape = shape_of({.batch = {.ids = {}, .offsets = offsets}, .terms = {}});
    take_memory(shape, true);
    head_pass(shape, &g_, {}).reserve(std::max(targets, sequences), tokens);
  }

  void save(const std::filesystem::path& directory, Precision precision) const override {
    save_weights(w_, directory, precision);
  }

  std::vector<std::string> load(const std::filesystem::path& directory) override {
    const io::SafeTensors files = io::SafeTensors::open(directory);
    const Family& f = *w_.family;
    Checkpoint checkpoint(files, directory.string(), f.prefix, std::string(f.embeddings.word) + ".weight");
    const std::string pooler = std::string(f.prefix) + std::string(f.pooler);
    return load_parameters(w_.tensors, checkpoint, [&](const TensorSpec& t) {
      return !t.name.starts_with(f.prefix) || (!f.pooler.empty() && t.name.starts_with(pooler));
    });
  }

 private:
  struct Kept {
    KeptAttention attention;
    KeptFeedForward feed_forward;
    Matrix<float> sum;  // norms first and recomputing: the stream of sums as it comes into the layer
  };

  static Matrix<float> table(const Weights& w, const io::TensorInfo& t) {
    return {table_numbers(t), t.shape[0], w.config.embedding_size()};
  }
  bool norm_first() const { return w_.family->norm_first; }
  bool projected() const { return w_.projection.outputs > 0; }

  void pass(const TrainingBatch& training, std::span<LossSum> sums, const Weights* gradient, const Ready& ready);
  PassShape shape_of(const TrainingBatch& training);
  HeadPass head_pass(const PassShape& shape, const Weights* gradient, std::optional<uint64_t> dropout_seed);
  void take_memory(const PassShape& shape, bool backward);
  void embeddings_forward(const TrainingBatch& training, const PassShape& shape);
  void embeddings_backward(const TrainingBatch& training, const PassShape& shape);
  void embeddings_output(const TrainingBatch& training, const PassShape& shape, Matrix<float> x);
  void input_of(size_t layer, const TrainingBatch& training, const PassShape& shape, Matrix<float> x);
  LayerPass layer_pass(size_t layer, const TrainingBatch& training, const PassShape& shape) {
    return {.shape = shape,
            .w = w_.layer(layer),
            .gradient = g_.layer(layer),
            .scale = score_scale(w_.config, layer),
            .masks = training.dropout_seed ? masks_for(shape, *training.dropout_seed, layer) : LayerMasks{},
            .scratch = scratch_,
            .team = team_};
  }
  kernels::RowDropout embedding_mask(const TrainingBatch& training, const PassShape& shape) const {
    const double own = w_.config.embedding_dropout, rate = own >= 0 ? own : w_.config.dropout;
    return training.dropout_seed ? mask_for(shape, float(rate), *training.dropout_seed, 0)
                               : kernels::RowDropout{};
  }

  LearnerOptions options_;
  Weights w_, g_;
  Team team_;
  Arena arena_, head_arena_;
  std::vector<int32_t> positions_, types_;
  std::vector<uint64_t> row_numbers_;

  // In the arena, for the pass that runs.
  std::vector<Kept> kept_;
  kernels::Normalised embedded_;
  Matrix<float> narrow_;       // (T, E), where embeddings are not as wide as the layers
  Matrix<float> x_, h_, sum_;  // states; sum_ is the stream of sums where norms come first
  Matrix<float> d_, d_sum_;    // gradients of x_ and sum_
  PassScratch scratch_;
};

PassShape EncoderLearner::shape_of(const TrainingBatch& training) {
  const Config& c = w_.config;
  const Batch& b = training.batch;
  row_numbers_.clear();
  if (training.dropout_seed) number_rows(b.offsets, training.first_sequence, row_numbers_);
  const auto rate = float(c.dropout);
  return {.offsets = b.offsets,
          .hidden = c.hidden,
          .heads = c.heads,
          .inner = c.intermediate,
          .look = c.causal() ? Look::causal() : Look(),
          .activation = w_.activation,
          .norm_first = norm_first(),
          .rows = row_numbers_,
          .first_sequence = training.first_sequence,
          .attention_rate = float(c.attention_dropout),
          .attention_out_rate = w_.family->drops_attention ? rate : 0,
          .feed_forward_rate = w_.family->drops_feed_forward ? rate : 0};
}

// Everything in one piece: what each layer keeps (all of it; when it is computed again only what goes into
// the next; without a way back nothing), states, gradients, scratch.
void EncoderLearner::take_memory(const PassShape& shape, bool backward) {
  const Config& c = w_.config;
  const size_t t = shape.tokens(), depth = c.depth(), wide = std::max(3 * c.hidden, c.intermediate);
  const bool keep = backward && !options_.recompute, again = backward && options_.recompute;
  const auto bytes = [&](size_t width) { return Arena::bytes_for<float>(t * width); };
  const size_t attention = attention_workspace(shape, team_.threads(), backward);
  size_t products = kernels::layer_norm_backward_workspace(t, c.embedding_size());
  for (const LayerWeights& l : w_.layers) products = std::max(products, backward_workspace(l, t));
  if (projected())
    products = std::max({products, kernels::linear_backward_input_workspace(w_.projection),
                         kernels::linear_backward_weights_workspace(w_.projection, t)});
  size_t rounded = 0;
  if (options_.bf16)
    for (const LayerWeights& l : w_.layers) rounded = std::max(rounded, bf16_workspace(l, t));
  const size_t of_a_layer = bytes(c.hidden) + bytes(1) + (norm_first() ? bytes(c.hidden) : 0);
  arena_.reset((Checked(keep ? depth : 1) * kept_bytes(shape) + Checked(again ? depth : 0) * of_a_layer +
                Checked(7) * bytes(c.hidden) + Checked(2) * bytes(c.embedding_size()) + bytes(1) +
                bytes(wide) + Arena::bytes_for<std::byte>(attention) + Arena::bytes_for<float>(rounded) +
                Arena::bytes_for<float>(backward ? products : 0))
                   .value());
  kept_.resize(depth);
  for (size_t l = 0; l < depth; ++l) {
    if (keep || l == 0) {
      kept_[l] = {take_attention(arena_, shape), take_feed_forward(arena_, shape), {}};
    } else {
      kept_[l] = kept_[0];
      if (again) kept_[l].feed_forward.norm = take_normalised(arena_, t, c.hidden);
    }
    if (again && norm_first()) kept_[l].sum = arena_.take<float>(t, c.hidden);
  }
  const auto state = [&] { return arena_.take<float>(t, c.hidden); };
  embedded_ = take_normalised(arena_, t, c.embedding_size());
  x_ = state(), h_ = state(), sum_ = norm_first() ? state() : Matrix<float>();
  narrow_ = projected() ? arena_.take<float>(t, c.embedding_size()) : x_;
  scratch_.product = state(), scratch_.wide = arena_.take<float>(t, wide);
  scratch_.attention = arena_.take<std::byte>(attention);
  if (rounded > 0) scratch_.rounded = arena_.take<float>(rounded);
  if (!backward) return;
  scratch_.more = state();
  d_ = state(), d_sum_ = norm_first() ? state() : Matrix<float>();
  scratch_.backward = arena_.take<float>(products);
}

void EncoderLearner::embeddings_forward(const TrainingBatch& training, const PassShape& shape) {
  const kernels::RowDropout mask = embedding_mask(training, shape);
  if (norm_first()) {
    embed(w_, training.batch, positions_, sum_, team_);
    kernels::layer_norm_training_forward(sum_, mask, {}, w_.embedding_norm, sum_, embedded_, x_, team_);
    return;
  }
  embed(w_, training.batch, positions_, narrow_, team_);
  kernels::layer_norm_training_forward(narrow_, {}, {}, w_.embedding_norm, {}, embedded_, {}, team_);
  embeddings_output(training, shape, x_);
}

// What goes into the first layer, from the normalised embeddings.
void EncoderLearner::embeddings_output(const TrainingBatch& training, const PassShape& shape, Matrix<float> x) {
  const Matrix<float> y = projected() ? narrow_ : x;
  kernels::normalised_output(embedded_.x, w_.embedding_norm, y, team_);
  if (norm_first()) return;
  const kernels::RowDropout mask = embedding_mask(training, shape);
  if (mask.dropout.rate > 0) kernels::dropout_rows(y, mask, y, team_);
  if (projected()) kernels::linear_forward(y, w_.projection, kernels::Activation::none, x, team_);
}

void EncoderLearner::input_of(size_t layer, const TrainingBatch& training, const PassShape& shape, Matrix<float> x) {
  if (layer == 0) return embeddings_output(training, shape, x);
  kernels::normalised_output(kept_[layer - 1].feed_forward.norm.x, w_.layer(layer - 1).output_norm, x, team_);
}

// From d_, the gradient of what goes into the first layer, to the tables. A batch has no padding, so there is
// no exception for it: a text that has "[PAD]" in it has a token of that name.
void EncoderLearner::embeddings_backward(const TrainingBatch& training, const PassShape& shape) {
  Matrix<float> d = d_;
  if (projected()) {  // narrow_ holds what was projected: input_of(0) has just made it
    kernels::linear_backward_weights(narrow_, d_, g_.projection, scratch_.backward, team_);
    kernels::linear_backward_input(d_, w_.projection, narrow_, scratch_.backward, team_);
    d = narrow_;
  }
  const kernels::RowDropout mask = embedding_mask(training, shape);
  const bool drops = mask.dropout.rate > 0;
  if (norm_first()) {
    kernels::layer_norm_training_backward(d, embedded_, w_.embedding_norm, d_sum_, mask, d_sum_,
                                          drops ? d : Matrix<float>(), g_.embedding_norm, scratch_.backward,
                                          team_);
    if (!drops) d = d_sum_;
  } else {
    if (drops) kernels::dropout_rows(d, mask, d, team_);
    kernels::layer_norm_training_backward(d, embedded_, w_.embedding_norm, {}, {}, d, {}, g_.embedding_norm,
                                          scratch_.backward, team_);
  }
  const Config& c = w_.config;
  const Batch& b = training.batch;
  kernels::embedding_backward(b.ids, d, 1, table(g_, g_.word), team_);
  kernels::embedding_backward(positions_, d, 1, {g_.position, c.positions, d.cols()}, team_);
  if (!w_.type) return;
  types_.assign(b.ids.size(), 0);
  if (c.types > 1 && !b.types.empty()) types_.assign(b.types.begin(), b.types.end());
  kernels::embedding_backward(types_, d, 1, {g_.type, c.types, d.cols()}, team_);
}

HeadPass EncoderLearner::head_pass(const PassShape& shape, const Weights* gradient,
                                   std::optional<uint64_t> dropout_seed) {
  const bool language = w_.has(Head::kMaskedLm) || w_.has(Head::kCausalLm);
  const auto decoder = [&](const Weights& w) {
    return language ? table(w, w.config.tied ? w.word : w.language_model.decoder) : Matrix<float>();
  };
  return {.w = w_,
          .gradient = gradient,
          .decoder = decoder(w_),
          .decoder_gradient = gradient ? decoder(*gradient) : Matrix<float>(),
          .shape = shape,
          .dropout_seed = dropout_seed,
          .arena = head_arena_,
          .team = team_};
}

void EncoderLearner::pass(const TrainingBatch& training, std::span<LossSum> sums, const Weights* gradient,
                          const Ready& ready) {
  const Config& c = w_.config;
  const Batch& b = training.batch;
  check_tokens(b, c, nullptr);
  if (sums.size() != training.terms.size())
    throw Error(fmt::format("{} sums for {} terms", sums.size(), training.terms.size()));
  const PassShape shape = shape_of(training);
  const HeadPass heads = head_pass(shape, gradient, training.dropout_seed);
  for (const LossTerm& term : training.terms) heads.check(b, term);
  if (b.ids.empty()) return;
  find_positions(w_, b, nullptr, positions_);
  take_memory(shape, gradient != nullptr);

  embeddings_forward(training, shape);
  const size_t depth = c.depth();
  for (size_t l = 0; l < depth; ++l) {
    const LayerPass layer = layer_pass(l, training, shape);
    if (!kept_[l].sum.empty()) std::copy_n(sum_.data(), b.ids.size() * c.hidden, kept_[l].sum.data());
    layer.attend(x_, norm_first() ? sum_ : x_, kept_[l].attention, h_);
    layer.feed_forward(h_, norm_first() ? sum_ : h_, kept_[l].feed_forward, x_);
  }

  if (gradient) {
    std::fill_n(d_.data(), b.ids.size() * c.hidden, 0.0f);
    if (norm_first()) std::fill_n(d_sum_.data(), b.ids.size() * c.hidden, 0.0f);
  }
  for (size_t i = 0; i < training.terms.size(); ++i) sums[i] += heads.run(b, training.terms[i], x_, d_);
  if (!gradient) return;

  const bool shared = w_.layers.size() < depth;
  for (size_t l = depth; l-- > 0;) {
    const LayerPass layer = layer_pass(l, training, shape);
    const Kept& kept = kept_[l];
    input_of(l, training, shape, x_);
    if (options_.recompute) {
      if (norm_first()) std::copy_n(kept.sum.data(), b.ids.size() * c.hidden, sum_.data());
      layer.attend(x_, norm_first() ? sum_ : x_, kept.attention, h_);
      kernels::mixed_forward(h_, layer.w.up, kernels::Activation::none, kept.feed_forward.up,
                             scratch_.rounded, team_);
    } else {
      kernels::normalised_output(kept.attention.norm.x, layer.w.attention_norm, h_, team_);
    }
    layer.feed_back(h_, kept.feed_forward, d_, d_sum_);
    layer.attend_back(x_, kept.attention, d_, d_sum_);
    if (ready && !shared) ready(size_t(layer.gradient.qkv.packed - gradients_.data()));
  }
  embeddings_backward(training, shape);
  if (ready) ready(0);
}

}  // namespace

std::unique_ptr<Learner> make_learner(const Config& config, const std::vector<Head>& heads, uint64_t seed,
                                      const LearnerOptions& options) {
  config.check("config");
  const Family& family = family_of(config.model_type, "config");
  for (Head head : heads)
    if (!has_head(family, head))
      throw Error(fmt::format("models of type {} have no {} head", config.model_type, name_of(head).name),
                  head == Head::kNextSentence ? "pre-train with mlm alone" : "");
  return std::make_unique<EncoderLearner>(config, heads, seed, options);
}

}  // namespace bertie
