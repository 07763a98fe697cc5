// vocab.json and merges.txt, as GPT-2's and RoBERTa's tokenizers of transformers 5 read them.
#include <algorithm>

#include "text/bpe.h"
#include "text/byte_level_road.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_state.h"

namespace bertie::text {
namespace {

// RoBERTa's frame or GPT-2's? The class says it, or the model's type, or the vocabulary.
bool is_roberta(const BpeFiles& files, const TokenizerConfig& config, const Vocabulary& vocabulary) {
  for (const std::string& said : {config.tokenizer_class, files.model_type}) {
    if (said.starts_with("Roberta") || said == "roberta") return true;
    if (said.starts_with("GPT2") || said == "gpt2") return false;
  }
  auto has = [&](const char* token) { return vocabulary.id(token) >= 0; };
  return has("<s>") && has("</s>") && has("<mask>");
}

}  // namespace

Definition read_bpe_files(const BpeFiles& files, const TokenizerConfig& config) {
  Vocabulary vocabulary = read_vocab_json(files.vocab, files.vocab_name);
  Merges merges = read_merges(files.merges, files.merges_name);
  vocabulary.seal("");

  Definition d;
  const bool roberta = is_roberta(files, config, vocabulary);
  d.names = roberta ? roberta_names() : gpt2_names();
  config.name(d.names);
  d.model_max_length = config.model_max_length.value_or(kNoLimit);

  // Special tokens that the vocabulary lacks come after it, in this order.
  const std::pair<const std::string*, const std::optional<AddedToken>*> specials[] = {
      {&d.names.bos, &config.bos},  {&d.names.eos, &config.eos}, {&d.names.unk, &config.unk},
      {&d.names.sep, &config.sep},  {&d.names.pad, &config.pad}, {&d.names.cls, &config.cls},
      {&d.names.mask, &config.mask}};
  for (auto [name, said] : specials) {
    auto same = [name = name](const AddedToken& t) { return t.content == *name; };
    if (name->empty() || std::any_of(d.added.begin(), d.added.end(), same)) continue;
    AddedToken token = *said ? **said : AddedToken{.content = *name, .special = true};
    token.id = vocabulary.id(*name);
    if (token.id < 0) {
      token.id = int32_t(vocabulary.size());
      vocabulary.add_outside(*name, vocabulary.size());
    }
    d.added.push_back(token);
  }

  ByteLevelSettings byte_level{.add_prefix_space = config.add_prefix_space.value_or(false)};
  if (roberta) {
    d.post_processor = roberta_frame(vocabulary.id(d.names.cls), vocabulary.id(d.names.sep));
    if (config.trim_offsets.value_or(true)) d.post_processor.trims = {byte_level.add_prefix_space};
  } else if (config.add_bos_token.value_or(false)) {
    TemplateItem bos{-1, 0, {vocabulary.id(d.names.bos)}};
    d.post_processor.single.insert(d.post_processor.single.begin(), bos);
    d.post_processor.pair = {bos, {0, 0, {}}, {-1, 1, bos.ids}, {1, 1, {}}};
  }
  d.decoders.push_back(byte_level_decoder());

  PipelineParts parts;
  auto model = std::make_unique<Bpe>(std::move(vocabulary), merges, BpeSettings{}, files.merges_name);
  parts.pre_tokenizers.push_back(byte_level_step(byte_level));
  parts.shortcut = byte_level_road(*model, byte_level);
  parts.model = std::move(model);
  d.road = std::make_unique<Pipeline>(std::move(parts), d.added);
  return d;
}

}  // namespace bertie::text
