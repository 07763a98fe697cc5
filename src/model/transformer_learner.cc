// Learning for the encoder-decoder Transformer: the forward pass of transformer_run.cc with what the way back
// needs kept, and back: output, decoder, encoder (which gets what every layer of the decoder makes of it),
// words. Dropout is where transformers' MarianMTModel has it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "kernels/embedding.h"
#include "model/batch.h"
#include "model/cross_pass.h"
#include "model/embed.h"
#include "model/head_pass.h"
#include "model/layer_pass.h"
#include "model/learner.h"
#include "model/parameters.h"
#include "model/transformer_weights.h"

namespace bertie {
namespace {

// What the output adds is no parameter in transformers, though its checkpoints have it: it stays what it is.
const std::string kConstant = "final_logits_bias";

class TransformerLearner final : public Learner {
 public:
  TransformerLearner(const TransformerConfig& config, uint64_t seed, const LearnerOptions& options)
      : options_(options),
        w_(config, "config"),
        g_(config, "config"),
        team_(options.threads > 0 ? options.threads : available_threads()) {
    w_.declare(), g_.declare();
    w_.memory = allocate(w_.tensors, true), g_.memory = allocate_gradients(g_.tensors);
    w_.place();
    const auto floats = [](const TransformerWeights& w) {
      return std::span(w.memory.as<float>(), w.memory.size() / sizeof(float));
    };
    parameters_ = floats(w_), gradients_ = floats(g_);
    segments_ = segments_of(w_.tensors, parameters_.data());
    initialise(w_.tensors, seed, [](const TensorSpec&) { return 1.0f; });
    for (const TensorSpec& t : g_.tensors)
      if (t.name != kConstant) learnt_.push_back(t);
    source_.w = &w_.encoder, source_.g = &g_.encoder;
    target_.w = &w_.decoder, target_.g = &g_.decoder;
  }

  const std::vector<TensorSpec>& tensors() const override { return w_.tensors; }
  const std::vector<TensorSpec>& gradient_tensors() const override { return learnt_; }
  size_t memory() const override { return arena_.capacity() + head_arena_.capacity(); }
  Team& team() override { return team_; }

  void learn(const TrainingBatch& training, std::span<LossSum> sums, const Ready& ready) override {
    pass(training, sums, true, ready);
  }
  void evaluate(const TrainingBatch& training, std::span<LossSum> sums) override {
    TrainingBatch dry = training;
    dry.dropout_seed.reset();
    pass(dry, sums, false, {});
  }

  void reserve(size_t sequences, size_t length, size_t targets) override {
    const std::vector<int32_t> ids(sequences * length);
    std::vector<int32_t> offsets(sequences + 1);
    for (size_t s = 0; s <= sequences; ++s) offsets[s] = int32_t(s * length);
    const Batch largest{.ids = ids, .offsets = offsets};
    const TrainingBatch training{.batch = largest, .target = largest, .terms = {}, .dropout_seed = 0};
    prepare(source_, largest, training), prepare(target_, largest, training);
    take_memory(true);
    head_arena_.reset(head_memory(targets).bytes);
  }

  void save(const std::filesystem::path& directory, Precision precision) const override {
    save_checkpoint(directory, precision, w_.tensors, "", w_.config.to_json());
  }

  std::vector<std::string> load(const std::filesystem::path& directory) override {
    const io::SafeTensors files = io::SafeTensors::open(directory);
    Checkpoint checkpoint(files, directory.string(), "model.", "shared.weight");
    return load_parameters(w_.tensors, checkpoint, [](const TensorSpec& t) { return t.name == kConstant; });
  }

 private:
  struct Kept {
    KeptAttention attention;
    KeptCross cross;  // the decoder's
    KeptFeedForward feed_forward;
  };
  struct Side {
    const SideWeights *w = nullptr, *g = nullptr;
    Batch batch;
    PassShape shape;
    std::vector<int32_t> positions;
    std::vector<uint64_t> row_numbers;
    // In the arena, for the pass that runs.
    std::vector<Kept> kept;
    Matrix<float> x, h, c;  // into a layer (and out of it), after attention, after looking across (else h)
    Matrix<float> d;        // gradient of x
    PassScratch scratch;

    bool decoder() const { return !w->cross.empty(); }
  };

  void pass(const TrainingBatch& training, std::span<LossSum> sums, bool backward, const Ready& ready);
  void check(const TrainingBatch& training, size_t sums) const;
  void prepare(Side& side, const Batch& batch, const TrainingBatch& training);
  void take_memory(bool learning);
  struct HeadMemory {
    size_t workspace, bytes;
  };
  HeadMemory head_memory(size_t rows) const;
  CrossShape cross_shape() const { return {target_.shape, source_.batch.offsets}; }

  void forward(Side& side);
  void layer_forward(Side& side, size_t layer, bool to_the_end);
  LossSum head(const LossTerm& term, bool backward);
  void backward(Side& side, const Ready& ready);
  void embeddings_forward(Side& side);
  void embeddings_backward(Side& side);

  // Places tell masks apart: encoder, decoder, and the decoder's look across.
  LayerMasks masks(const Side& side, size_t layer, bool across = false) const {
    if (!dropout_seed_) return {};
    const size_t depth = w_.encoder.layers.size(), first = side.decoder() ? depth : 0;
    return masks_for(side.shape, *dropout_seed_, first + layer + (across ? w_.decoder.layers.size() : 0));
  }
  LayerPass layer_pass(const Side& side, size_t layer) {
    return {.shape = side.shape,
            .w = side.w->layers[layer],
            .gradient = side.g->layers[layer],
            .scale = 1 / std::sqrt(float(side.shape.hidden / side.shape.heads)),
            .masks = masks(side, layer),
            .scratch = side.scratch,
            .team = team_};
  }
  CrossPass cross_pass(size_t layer) {
    return {.shape = cross_shape(),
            .w = w_.decoder.cross[layer],
            .gradient = g_.decoder.cross[layer],
            .masks = masks(target_, layer, true),
            .scratch = target_.scratch,
            .team = team_};
  }
  kernels::RowDropout embedding_mask(const Side& side) const {
    if (!dropout_seed_) return {};
    return mask_for(side.shape, float(w_.config.dropout), *dropout_seed_, side.decoder());
  }
  Matrix<float> words(const TransformerWeights& w) const {
    return {table_numbers(w.word), w.config.vocabulary, w.config.hidden};
  }

  LearnerOptions options_;
  TransformerWeights w_, g_;
  std::vector<TensorSpec> learnt_;  // of g_
  Team team_;
  Arena arena_, head_arena_;
  Side source_, target_;
  std::optional<uint64_t> dropout_seed_;
  Matrix<float> d_key_value_;  // (Ts, 2C)
};

void TransformerLearner::check(const TrainingBatch& training, size_t sums) const {
  const TransformerConfig& c = w_.config;
  for (const Batch* batch : {&training.batch, &training.target})
    check_batch(*batch, c.vocabulary, c.positions, nullptr);
  if (training.batch.size() != training.target.size())
    throw Error(fmt::format("{} targets for {} sources", training.target.size(), training.batch.size()));
  if (sums != training.terms.size())
    throw Error(fmt::format("{} sums for {} terms", sums, training.terms.size()));
  for (const LossTerm& term : training.terms) {
    if (term.head != Head::kCausalLm)
      throw Error("an encoder-decoder learns to write its target: Head::kCausalLm");
    const size_t tokens = training.target.ids.size();
    check_targets(term, term.rows.empty() ? tokens : term.rows.size(), c.vocabulary, tokens);
  }
}

void TransformerLearner::prepare(Side& side, const Batch& batch, const TrainingBatch& training) {
  const TransformerConfig& c = w_.config;
  side.batch = batch;
  find_positions(batch, nullptr, side.positions);
  side.row_numbers.clear();
  if (training.dropout_seed) number_rows(batch.offsets, training.first_sequence, side.row_numbers);
  side.shape = {.offsets = batch.offsets,
                .hidden = c.hidden,
                .heads = side.w->heads,
                .inner = side.w->ffn,
                .look = side.decoder() ? Look::causal() : Look(),
                .activation = w_.activation,
                .rows = side.row_numbers,
                .first_sequence = training.first_sequence,
                .attention_rate = float(c.attention_dropout),
                .attention_out_rate = float(c.dropout),
                .activation_rate = float(c.activation_dropout),
                .feed_forward_rate = float(c.dropout)};
}

// Everything in one piece: what each layer keeps (all of it, or when it is computed again only what goes into
// the next), states, gradients, and scratch that both sides use.
void TransformerLearner::take_memory(bool learning) {
  const size_t hidden = w_.config.hidden;
  const bool keep = learning && !options_.recompute;
  const CrossShape cross = cross_shape();
  Checked bytes = Checked(Arena::bytes_for<float>(cross.source_tokens() * 2 * hidden));
  size_t attention = attention_workspace(cross, team_.threads(), learning), products = 0, wide = 0, most = 0;
  size_t rounded = 0;
  for (const CrossWeights& c : w_.decoder.cross) {
    products = std::max(products, backward_workspace(c, cross));
    if (options_.bf16) rounded = std::max(rounded, bf16_workspace(c, cross));
  }
  for (const Side* side : {&source_, &target_}) {
    const PassShape& shape = side->shape;
    const size_t t = shape.tokens(), depth = side->w->layers.size();
    const size_t of_a_layer = kept_bytes(shape) + (side->decoder() ? kept_bytes(cross) : 0);
    const size_t normalised = Arena::bytes_for<float>(t * hidden) + Arena::bytes_for<float>(t);
    bytes = bytes + Checked(keep ? depth : 1) * of_a_layer + Checked(depth) * normalised +
            Checked(4) * Arena::bytes_for<float>(t * hidden);
    attention = std::max(attention, attention_workspace(shape, team_.threads(), learning));
    for (const LayerWeights& l : side->w->layers) {
      products = std::max(products, backward_workspace(l, t));
      if (options_.bf16) rounded = std::max(rounded, bf16_workspace(l, t));
    }
    wide = std::max(wide, t * std::max(3 * hidden, shape.inner));
    most = std::max(most, t);
  }
  bytes = bytes + Checked(2) * Arena::bytes_for<float>(most * hidden) + Arena::bytes_for<float>(wide) +
          Arena::bytes_for<std::byte>(attention) + Arena::bytes_for<float>(products) +
          Arena::bytes_for<float>(rounded);
  arena_.reset(bytes.value());

  float* const product = arena_.take<float>(most * hidden);
  float* const more = arena_.take<float>(most * hidden);
  float* const wide_memory = arena_.take<float>(wide);
  std::byte* const attention_memory = arena_.take<std::byte>(attention);
  float* const backward_memory = arena_.take<float>(products);
  float* const rounded_memory = rounded > 0 ? arena_.take<float>(rounded) : nullptr;
  d_key_value_ = arena_.take<float>(cross.source_tokens(), 2 * hidden);
  for (Side* side : {&source_, &target_}) {
    const PassShape& shape = side->shape;
    const size_t t = shape.tokens();
    const auto state = [&] { return arena_.take<float>(t, hidden); };
    side->kept.resize(side->w->layers.size());
    for (size_t l = 0; l < side->kept.size(); ++l) {
      Kept& kept = side->kept[l];
      if (keep || l == 0) {
        kept.attention = take_attention(arena_, shape);
        if (side->decoder()) kept.cross = take_cross(arena_, cross);
        kept.feed_forward = take_feed_forward(arena_, shape);
      } else {
        kept = side->kept[0];
        kept.feed_forward.norm = take_normalised(arena_, t, hidden);
      }
    }
    side->x = state(), side->h = state(), side->d = state();
    side->c = side->decoder() ? state() : side->h;
    side->scratch = {.product = {product, t, hidden},
                     .more = {more, t, hidden},
                     .wide = {wide_memory, t, std::max(3 * hidden, shape.inner)},
                     .attention = attention_memory,
                     .backward = backward_memory,
                     .rounded = rounded_memory};
  }
}

void TransformerLearner::embeddings_forward(Side& side) {
  embed(w_, side.batch, side.positions, side.x, team_);
  const kernels::RowDropout mask = embedding_mask(side);
  if (mask.dropout.rate > 0) kernels::dropout_rows(side.x, mask, side.x, team_);
}

// x through a layer; `to_the_end` or only up to where the way back begins.
void TransformerLearner::layer_forward(Side& side, size_t l, bool to_the_end) {
  const LayerPass layer = layer_pass(side, l);
  const Kept& kept = side.kept[l];
  layer.attend(side.x, side.x, kept.attention, side.h);
  if (side.decoder()) cross_pass(l).attend(side.h, source_.x, kept.cross, side.c);
  if (to_the_end)
    layer.feed_forward(side.c, side.c, kept.feed_forward, side.x);
  else
    kernels::mixed_forward(side.c, layer.w.up, kernels::Activation::none, kept.feed_forward.up,
                           side.scratch.rounded, team_);
}

void TransformerLearner::forward(Side& side) {
  embeddings_forward(side);
  for (size_t l = 0; l < side.kept.size(); ++l) layer_forward(side, l, true);
}

TransformerLearner::HeadMemory TransformerLearner::head_memory(size_t rows) const {
  const size_t hidden = w_.config.hidden;
  const size_t floats =
      kernels::vocabulary_loss_workspace(rows, w_.config.vocabulary, hidden, team_.threads());
  return {floats, (Checked(2) * Arena::bytes_for<float>(rows * hidden) + Arena::bytes_for<int32_t>(rows) +
                   Arena::bytes_for<float>(floats))
                      .value()};
}

// The loss of a term; its gradient is added to target_.d.
LossSum TransformerLearner::head(const LossTerm& term, bool backward) {
  const size_t hidden = w_.config.hidden, rows = term.rows.empty() ? target_.x.rows() : term.rows.size();
  const HeadMemory memory = head_memory(rows);
  head_arena_.reset(memory.bytes);
  int32_t* const from = head_arena_.take<int32_t>(rows);
  const Matrix<float> x = head_arena_.take<float>(rows, hidden), dx = head_arena_.take<float>(rows, hidden);
  for (size_t i = 0; i < rows; ++i) {
    from[i] = term.rows.empty() ? int32_t(i) : term.rows[i];
    std::copy_n(target_.x.row(size_t(from[i])), hidden, x.row(i));
  }
  const kernels::VocabularyGradient gradient{dx, words(g_)};
  const LossSum sum = kernels::vocabulary_loss(x, {words(w_), w_.logits_bias}, term.targets, term.scale,
                                               backward ? &gradient : nullptr,
                                               head_arena_.take<float>(memory.workspace), team_);
  if (backward) kernels::embedding_backward({from, rows}, dx, 1, target_.d, team_);
  return sum;
}

// From d, the gradient of what a side gave, to the gradients of its layers and the words it read.
void TransformerLearner::backward(Side& side, const Ready& ready) {
  for (size_t l = side.kept.size(); l-- > 0;) {
    const LayerPass layer = layer_pass(side, l);
    const Kept& kept = side.kept[l];
    if (l == 0)
      embeddings_forward(side);
    else
      kernels::normalised_output(side.kept[l - 1].feed_forward.norm.x, side.w->layers[l - 1].output_norm,
                                 side.x, team_);
    if (options_.recompute) {
      layer_forward(side, l, false);
    } else {
      kernels::normalised_output(kept.attention.norm.x, layer.w.attention_norm, side.h, team_);
      if (side.decoder()) kernels::normalised_output(kept.cross.norm.x, side.w->cross[l].norm, side.c, team_);
    }
    layer.feed_back(side.c, kept.feed_forward, side.d, {});
    if (side.decoder())
      cross_pass(l).attend_back(side.h, source_.x, kept.cross, {side.d, source_.d, d_key_value_});
    layer.attend_back(side.x, kept.attention, side.d, {});
    if (ready) ready(size_t(layer.gradient.qkv.packed - gradients_.data()));
  }
  embeddings_backward(side);
}

// Padding, which the decoder may begin with, is a row that is looked up but not taught by it: as in
// transformers.
void TransformerLearner::embeddings_backward(Side& side) {
  const kernels::RowDropout mask = embedding_mask(side);
  if (mask.dropout.rate > 0) kernels::dropout_rows(side.d, mask, side.d, team_);
  for (size_t t = 0; t < side.batch.ids.size(); ++t)
    if (side.batch.ids[t] == w_.config.pad_id) std::fill_n(side.d.row(t), side.d.cols(), 0.0f);
  kernels::embedding_backward(side.batch.ids, side.d, w_.word_scale(), words(g_), team_);
}

void TransformerLearner::pass(const TrainingBatch& training, std::span<LossSum> sums, bool learning,
                              const Ready& ready) {
  check(training, sums.size());
  if (training.target.ids.empty()) return;
  dropout_seed_ = training.dropout_seed;
  prepare(source_, training.batch, training);
  prepare(target_, training.target, training);
  take_memory(learning);
  forward(source_);
  forward(target_);
  if (learning)
    for (const Side* side : {&source_, &target_})
      std::fill_n(side->d.data(), side->d.rows() * side->d.cols(), 0.0f);
  for (size_t i = 0; i < training.terms.size(); ++i) sums[i] += head(training.terms[i], learning);
  if (!learning) return;
  backward(target_, ready);
  backward(source_, ready);
  if (ready) ready(0);
}

}  // namespace

std::unique_ptr<Learner> make_learner(const TransformerConfig& config, uint64_t seed,
                                      const LearnerOptions& options) {
  config.check("config");
  return std::make_unique<TransformerLearner>(config, seed, options);
}

}  // namespace bertie
