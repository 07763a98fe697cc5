// vocab.json and merges.txt, as GPT-2's and RoBERTa's tokenizers of transformers 5 read them.
#include "text/models/bpe.h"
#include "text/segmenters/byte_level_fast_path.h"
#include "text/steps/pre_tokenizers.h"
#include "text/tokenizer_parts.h"

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

  AddedList list(vocabulary);
  config.add_first(d.names, list);
  for (const std::string* name : d.names.all()) list.add(config.named(*name));
  for (const AddedToken& t : config.extra) list.add(t);
  d.added = list.finish([](const std::string& content) { return content; });

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
