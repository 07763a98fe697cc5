#include "bertie/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "bertie/similarity.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "model/access.h"
#include "tasks/new_folder.h"
#include "tasks/quantized_model.h"

namespace bertie {
namespace {

// Prose, talk, figures, a question, a list: what texts have. Every other one is measured on.
constexpr const char* kTexts[] = {
    "The river rose in the night, and by the morning the bridge, which had stood for two hundred years, was "
    "gone.",
    "He opened the bank account in 1998; by March 2004 it held £12,450.75.",
    "\"Don't you see?\" she said. \"It wasn't his letter at all.\"",
    "A fine film: funny, sad, and never a minute too long.",
    "Paris is the capital of France, and Berlin that of Germany.",
    "Who wrote the first program for a computing machine, and when?",
    "The committee (seven members, two of them new) met on Tuesday to vote on the budget for the coming "
    "year.",
    "It's the worst restaurant I have ever been to: the soup was cold, the waiter rude, and the bill wrong.",
    "Water boils at 100 degrees at sea level, but at 93 degrees on a mountain of 2,000 meters.",
    "i just love how this phone works, the battery lasts 2 days!!!",
    "Ada Lovelace met Charles Babbage in London, where he showed her his Difference Engine.",
    "The results of the trial, published on Friday, suggest that the drug is safe; whether it works remains "
    "to be seen.",
    "To make bread you need flour, water, salt, yeast and time.",
    "The new law, which was passed by a small majority, requires that companies say where their goods come "
    "from.",
    "We were walking along the shore when the storm began.",
    "See section 4.2 of the manual, or write to us if that does not help.",
};

// Texts as a batch, each cut to what the model reads.
struct Sample {
  Sample(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts, size_t first) {
    Encoding encoding;
    const size_t most = std::min(model.config().max_tokens(), tokenizer.model_max_length());
    for (size_t i = first; i < texts.size(); i += 2) {
      tokenizer.encode_into(texts[i], {.max_length = std::min<size_t>(most, 256)}, encoding);
      if (encoding.size() == 0) continue;
      ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
      types.insert(types.end(), encoding.types.begin(), encoding.types.end());
      offsets.push_back(int32_t(ids.size()));
    }
    if (ids.empty())
      throw Error("the texts to measure on have no tokens", "texts as the model will read them", "texts");
  }
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }

  std::vector<int32_t> ids, types, offsets{0};
};

std::vector<std::string> or_own(std::vector<std::string> texts) {
  if (texts.empty()) texts.assign(std::begin(kTexts), std::end(kTexts));
  return texts;
}

size_t bytes_of_weights(const Model& model) {
  size_t bytes = 0;
  for (const io::TensorInfo& t : weights_of(model).files.tensors()) bytes += t.data.size();
  return bytes;
}

}  // namespace

Model quantized(const Model& model, const Tokenizer& tokenizer) {
  return model.quantized(Sample(model, tokenizer, or_own({}), 0).batch());
}

Quantized quantize(const QuantizeOptions& options) {
  const std::string below = io::transformer_folder(options.from);
  const ModelFiles inside = options.from.below(below);
  const Model model = Model::load(inside);
  if (model.format() == WeightFormat::kInt8)
    throw Error(fmt::format("{} is quantized already", options.from.name()),
                "the model that it was made from");
  const Tokenizer tokenizer = Tokenizer::load(inside);
  const std::vector<std::string> texts = or_own(options.texts);
  if (texts.size() < 2)
    throw Error("a text to choose by and one to measure on are needed", "some fifty texts", "texts");
  NewFolder folder(options.to, options.force);
  const Model integers = model.quantized(Sample(model, tokenizer, texts, 0).batch());
  const std::filesystem::path at = below.empty() ? folder.path() : folder.path() / below;
  integers.save(at);
  folder.take_others(options.from, below);
  const Model written = Model::load(at);

  Quantized result{
      .bytes_before = bytes_of_weights(model), .bytes = bytes_of_weights(written), .worst_cosine = 1};
  const Sample held_out(model, tokenizer, texts, 1);
  Run before(model), after(written);
  const Matrix<const float> a = before.forward(held_out.batch()).last_hidden;
  const Matrix<const float> b = after.forward(held_out.batch()).last_hidden;
  for (size_t t = 0; t < a.rows(); ++t) {
    const double c = double(cosine(a[t], b[t]));
    if (!std::isfinite(c))
      throw Error("the model's states are not finite", "a model whose weights are", "from");
    result.mean_cosine += c / double(a.rows());
    result.worst_cosine = std::min(result.worst_cosine, c);
  }
  result.tokens = a.rows();
  folder.commit();
  return result;
}

}  // namespace bertie
