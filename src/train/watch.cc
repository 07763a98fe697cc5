#include "train/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bertie/error.h"
#include "bertie/text_model.h"
#include "io/quote.h"
#include "tasks/text_model_state.h"

namespace bertie {

std::function<std::vector<Watched>()> watch_masks(const std::vector<std::string>& texts,
                                                  const ModelFiles& tokenizer, const Learner& learner,
                                                  int threads) {
  if (texts.empty()) return {};
  // Made anew each time: a model packs some of its weights when it is first asked.
  const auto model_now = [tokenizer, &learner, threads] {
    return TextModelAccess::make(std::make_shared<LoadedModel>(LoadedModel{
                                     Tokenizer::load(tokenizer), learner.view(), Modules{}, std::nullopt}),
                                 {.threads = threads});
  };
  const TextModel model = model_now();
  if (!model.can(Head::kMaskedLm))
    throw Error("`watch` fills masks, and this model does not learn to", "`objective` mlm", "watch");
  const Tokenizer& its = model.tokenizer();
  const size_t most = model.model().config().max_tokens();
  for (const std::string& text : texts)
    if (const auto ids = its.encode(text, {.max_length = most}).ids;
        std::find(ids.begin(), ids.end(), its.mask_id()) == ids.end())
      throw Error(fmt::format("`watch` {} has no mask", io::quote(text)),
                  fmt::format("write {} where a word is missing", its.token(its.mask_id())), "watch");
  return [texts, model_now] {
    std::vector<MaskFilling> fillings = model_now().fill_mask(Texts(texts));
    std::vector<Watched> all;
    for (size_t i = 0; i < texts.size(); ++i) all.push_back({texts[i], std::move(fillings[i].masks)});
    return all;
  };
}

}  // namespace bertie
