// Who looks at whom.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tasks/text_model_state.h"

namespace bertie {

Matrix<const float> Attention::at(size_t layer, size_t head) const {
  if (layer >= layers || head >= heads)
    throw Error(
        fmt::format("no layer {}, head {}: the model has {} layers of {} heads", layer, head, layers, heads));
  const auto place = std::find(kept.begin(), kept.end(), layer);
  if (place == kept.end())
    throw Error(fmt::format("layer {} was not kept", layer), "name it among AttendOptions::layers");
  return {weights.data() + (size_t(place - kept.begin()) * heads + head) * n() * n(), n(), n()};
}

Attention attention_of(const Config& config, const Tokenizer& tokenizer, Encoding encoding,
                       std::vector<size_t> layers) {
  if (encoding.size() == 0)
    throw Error("the text has no tokens, so there is nothing to look at", "a text with at least one word");
  if (encoding.size() > config.max_tokens())
    throw Error(fmt::format("the text has {} tokens, but the model has positions for {}", encoding.size(),
                            config.max_tokens()),
                "give a shorter text");
  Attention a;
  a.layers = config.depth(), a.heads = config.heads;
  a.kept = std::move(layers);
  if (a.kept.empty()) {
    a.kept.resize(a.layers);
    std::iota(a.kept.begin(), a.kept.end(), size_t{0});
  }
  std::sort(a.kept.begin(), a.kept.end());
  a.kept.erase(std::unique(a.kept.begin(), a.kept.end()), a.kept.end());
  if (a.kept.back() >= a.layers)
    throw Error(fmt::format("no layer {}: the model has layers 0 to {}", a.kept.back(), a.layers - 1));
  for (int32_t id : encoding.ids) a.tokens.emplace_back(tokenizer.token(id));
  a.encoding = std::move(encoding);
  return a;
}

namespace {

Attention attend(Worker& worker, const LoadedModel& loaded, Encoding encoding, const AttendOptions& options) {
  const Config& config = loaded.model.config();
  Attention a = attention_of(config, loaded.tokenizer, std::move(encoding), options.layers);
  // A layer whose weights are wanted runs another kernel, whose last bits differ. All layers below run it
  // too, so that weights do not depend on which are asked for.
  Capture capture;
  for (size_t layer = 0; layer <= a.kept.back(); ++layer) capture.attention.push_back(layer);
  const size_t n = a.n(), size = config.heads * n * n;
  const int32_t offsets[2] = {0, int32_t(n)};
  const Output& output =
      worker.run.forward({.ids = a.encoding.ids, .types = a.encoding.types, .offsets = offsets}, capture);
  check_finite(output.last_hidden);
  a.weights.reserve(a.kept.size() * size);
  for (size_t layer : a.kept) {
    const size_t begin = a.weights.size();
    a.weights.resize(begin + size);  // zeros: a head that was pruned looks at nothing
    for (const size_t head : config.heads_of(layer)) {
      const Matrix<const float> weights = output.attention(layer, 0, head);
      check_finite(weights);
      std::copy_n(weights.data(), n * n, a.weights.data() + begin + head * n * n);
    }
  }
  return a;
}

}  // namespace

Attention TextModel::attend(std::string_view text, const AttendOptions& options) const {
  return bertie::attend(*state_->take_worker(), *state_->loaded, tokenizer().encode(text), options);
}

Attention TextModel::attend(std::string_view a, std::string_view b, const AttendOptions& options) const {
  return bertie::attend(*state_->take_worker(), *state_->loaded, tokenizer().encode(a, b), options);
}

}  // namespace bertie
