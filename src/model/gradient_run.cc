#include "model/gradient_run.h"

#include "bertie/error.h"
#include "model/access.h"
#include "model/heads.h"
#include "model/trunk.h"

namespace bertie {

struct GradientRun::State {
  State(const Model& m, int threads) : model(m), w(weights_of(m)), pass(threads), trunk(w.trunk, pass) {
    pass.parameters_learn = false;
  }
  Model model;
  const Weights& w;
  Pass pass;
  TrunkPass trunk;
  RowsRead read;
  std::vector<std::vector<size_t>> off;
};

GradientRun::GradientRun(const Model& model, int threads) : state_(std::make_unique<State>(model, threads)) {
  const Weights& w = state_->w;
  if (w.format != WeightFormat::kFloat32)
    throw Error(w.format == WeightFormat::kInt8
                    ? "gradients need weights in fp32, and this model's are in int8"
                    : "gradients need weights in fp32, and this model's are in bf16",
                "load it in fp32; of a quantized model, the one that it was made from", "precision");
  if (!w.config.attention.is_standard(w.config.causal()))
    throw Error("gradients of attention's weights are for softmax(Q·Kᵀ/√D)·V over all tokens",
                "a model with BERT's own attention");
}
GradientRun::~GradientRun() = default;

void GradientRun::switch_off(std::span<const WhichHead> heads) {
  check_heads_exist(heads, state_->w.config);
  state_->off = places_of_heads(heads, state_->w.config);
}

LossSum GradientRun::run(const Batch& batch, const LossTerm& term,
                         const std::function<void(const Seen&)>& see) {
  State& s = *state_;
  check_batch(batch, s.w.trunk.embeddings, s.w.config.max_tokens(), nullptr);
  check_term(s.w, batch, term);
  s.read.find(s.w, batch, std::span(&term, 1));
  const auto on_context = [&](size_t layer, Matrix<const float> d_context, const KeptAttention& kept) {
    const size_t width = kept.context.cols();
    see({layer, kept.context, d_context, kept.query.slice_cols(2 * width, width)});
  };
  s.trunk.start(batch, {.keep = true,
                        .frozen_layers = 0,  // embeddings have no gradient
                        .wanted = s.read.rows,
                        .off = s.off,
                        .on_context = on_context});
  LossSum sum;
  s.pass.arena.run([&] {
    const Matrix<const float> hidden = s.trunk.forward();
    const Matrix<float> d = s.trunk.take_gradient();
    // Parameters do not learn: where their gradients would go nobody looks.
    const HeadLoss head{.w = s.w, .gradient = &s.w, .places = s.read.places, .pass = s.pass};
    sum = head.run(batch, term, hidden, d);
    s.trunk.backward(s.w.trunk, d, {}, {});
  });
  return sum;
}

Team& GradientRun::team() { return state_->pass.team(); }

}  // namespace bertie
