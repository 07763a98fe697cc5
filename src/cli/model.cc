#include "cli/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bertie/hub.h"
#include "bertie/launcher.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

namespace {

constexpr const char* kFolder =
    "a folder with config.json, model.safetensors and tokenizer.json or vocab.txt";
constexpr std::string_view kGive = "--model NAME (after bertie pull NAME) or --model DIR";

// What each work takes: a head; the embedded model that has it, where one does; what it is to do that, what
// kind of model can, one of the hub that is such, and how to train one.
struct Needs {
  std::optional<Head> head;
  std::string_view embedded, work = {}, kind = {}, known = {}, train = {};
};
Needs needs_of(Work work) {
  switch (work) {
    case Work::kRead:
      break;
    case Work::kFillMask:
      return {Head::kMaskedLm,
              "bertie-mini",
              "fill masks",
              "masked language model",
              "google-bert/bert-base-uncased",
              "bertie pretrain --data SHARDS -o run"};
    case Work::kNextSentence:
      return {Head::kNextSentence,
              "bertie-mini",
              "judge next sentences",
              "BERT with its pre-training heads",
              "google-bert/bert-base-uncased",
              "bertie pretrain --data SHARDS -o run"};
    case Work::kClassify:
      return {Head::kClassify,
              "bertie-mini/sentiment",
              "give labels to texts",
              "classifier",
              "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
              "bertie finetune classify --train TEXTS.tsv -o labels"};
    case Work::kTag:
      return {Head::kTag, "bertie-mini/entities", "name entities",
              "tagger",   "dslim/bert-base-NER",  "bertie finetune tag --train WORDS.conll -o entities"};
    case Work::kPair:
      return {Head::kClassify,
              "",
              "judge pairs of texts",
              "classifier of pairs",
              "cross-encoder/nli-MiniLM2-L6-H768",
              "bertie finetune pair --train PAIRS.tsv -o pairs"};
    case Work::kAnswer:
      return {Head::kAnswer,
              "",
              "answer questions",
              "question answerer",
              "deepset/roberta-base-squad2",
              "bertie finetune answer --train QUESTIONS.json -o answers"};
    case Work::kWrite:
      return {Head::kCausalLm,
              "",
              "continue texts",
              "causal language model",
              "openai-community/gpt2",
              "bertie pretrain --objective causal --config CONFIG.json --data SHARDS -o run"};
  }
  return {{}, "bertie-mini"};
}

// How to come by a model that can do it.
std::string way_out(const Needs& needs) {
  return fmt::format("bertie pull {0}, then --model {0}; or train one: {1}", needs.known, needs.train);
}

// That of --pooling; whether vectors have length 1 stays as it is.
Pooling pooling_of(const Settings& settings, const Pooling& files) {
  const auto is = [&](PoolingKind kind) { return *settings.pooling == int(kind); };
  return {.cls = is(PoolingKind::kCls),
          .mean = is(PoolingKind::kMean),
          .max = is(PoolingKind::kMax),
          .mean_sqrt_length = is(PoolingKind::kMeanSqrtLength),
          .normalize = files.normalize};
}

}  // namespace

bool is_embedded(Work work) {
  const std::vector<std::string> there = embedded_models();
  return std::find(there.begin(), there.end(), needs_of(work).embedded) != there.end();
}

Work work_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kPair:
      return Work::kPair;
    case TaskKind::kTag:
      return Work::kTag;
    case TaskKind::kAnswer:
      return Work::kAnswer;
    case TaskKind::kClassify:
      break;
  }
  return Work::kClassify;
}

std::optional<Head> head_for(Work work) { return needs_of(work).head; }

bool names_model(const Settings& settings) {
  const char* variable = std::getenv("BERTIE_MODEL");
  return settings.model || (variable && *variable);
}

std::string model_name(const Settings& settings, Work work) {
  if (names_model(settings)) return settings.model ? *settings.model : std::getenv("BERTIE_MODEL");
  const Needs needs = needs_of(work);
  if (is_embedded(work)) return std::string(needs.embedded);
  const std::string once = fmt::format("{}; once for all: export BERTIE_MODEL=NAME", kGive);
  if (needs.work.empty()) throw UsageError("no model was given", once);
  throw UsageError(
      embedded_models().empty()
          ? "no model was given"
          : fmt::format("no model was given, and the one that bertie brings cannot {}", needs.work),
      fmt::format("a {} can: {}", needs.kind, way_out(needs)));
}

ModelFiles tokenizer_files(const Settings& settings) {
  const std::string name = model_name(settings);
  try {
    ModelFiles files(name);
    if (!files.only().empty())
      throw Error(fmt::format("there is no model {}: it is not a folder", in_quotes(name)), kFolder);
    return files;
  } catch (const Error& error) {
    throw Error(fmt::format("{}{}", error.what(), settings.model ? "" : " (from $BERTIE_MODEL)"),
                error.hint());
  }
}

std::string short_model_name(const Settings& settings) {
  std::string name = model_name(settings);
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name.substr(name.find_last_of('/') + 1);
}

ModelFiles model_files(const Settings& settings, Work work) {
  if (!names_model(settings)) return model_name(settings, work);
  const ModelFiles files = tokenizer_files(settings);
  if (files.is_model()) return files;
  if (settings.model && files.name() != *settings.model)  // in the cache, but not all of it
    throw Error(fmt::format("the model {} is not complete: {} has no config.json", in_quotes(*settings.model),
                            in_quotes(files.name())),
                fmt::format("bertie pull {}", *settings.model));
  throw Error(fmt::format("{} is not a model: it has no config.json", in_quotes(files.name())), kFolder);
}

WeightFormat weight_format(const Settings& settings) {
  return WeightFormat(settings.precision.value_or(int(WeightFormat::kFloat32)));
}

std::string name_of(const Pooling& pooling) {
  std::string name;
  for (const auto& [on, one] : {std::pair(pooling.cls, "cls"),
                                {pooling.max, "max"},
                                {pooling.mean, "mean"},
                                {pooling.mean_sqrt_length, "mean-sqrt-length"}})
    if (on) name += (name.empty() ? "" : "+") + std::string(one);
  return name;
}

EmbedOptions embed_options(const Settings& settings, ProgressCallback progress) {
  EmbedOptions options{.windows = settings.windows, .progress = std::move(progress)};
  if (settings.normalize) options.normalize = true;
  if (settings.prefix) options.prefix = *settings.prefix;
  return options;
}

TextModel load_model(const Settings& settings, Work work) {
  TextModel model = load(
      model_files(settings, work),
      {.threads = int(settings.threads.value_or(0)),
       .max_length = settings.max_length.value_or(0),
       .strict = settings.strict,
       .warning =
           [quiet = settings.quiet](std::string_view what) {
             if (!quiet)
               warn(what, "--strict takes no such model; bertie convert --drop-unknown makes one without");
           },
       .format = weight_format(settings)});
  if (const Launcher launcher = Launcher::find();
      launcher.several() && launcher.cores > 0 && !settings.threads)
    model = model.with_threads(std::clamp(launcher.cores / launcher.ranks_here, 1, model.threads()));
  if (const Needs needs = needs_of(work); needs.head && !model.can(*needs.head)) try {
      model.require(*needs.head);
    } catch (const Error& error) {
      throw Error(error.what(),
                  fmt::format("{}; {}{}", error.hint(), way_out(needs),
                              is_embedded(work) ? "; without --model bertie takes its own" : ""));
    }
  if (settings.pooling) model = model.with_pooling(pooling_of(settings, model.pooling()));
  if (settings.without)
    model = model.without(heads_named(*settings.without, "without", model.model().config()));
  return model;
}

std::vector<WhichHead> heads_named(const std::string& list, std::string_view option, const Config& config) {
  std::vector<WhichHead> heads;
  const auto number = [&](std::string_view text, size_t most, std::string_view what) {
    size_t value = 0;
    if (!read_number(text, value))
      throw UsageError(fmt::format("--{} {} is no list of heads", option, in_quotes(list)),
                       fmt::format("--{} 5-3,7-1: layer 5's head 3 and layer 7's head 1", option));
    if (value < 1 || value > most)
      throw UsageError(fmt::format("--{} {}: there is no {} {}", option, in_quotes(list), what, value),
                       fmt::format("this model has {} layers of {} heads", config.depth(), config.heads));
    return value - 1;
  };
  std::string_view rest = list;
  while (true) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    const size_t dash = std::min(item.find('-'), item.size());
    const size_t layer = number(item.substr(0, dash), config.depth(), "layer");
    if (dash < item.size())
      heads.push_back({layer, number(item.substr(dash + 1), config.heads, "head")});
    else
      for (size_t head = 0; head < config.heads; ++head) heads.push_back({layer, head});
    if (end == rest.size()) return heads;
    rest.remove_prefix(end + 1);
  }
}

void check_layer_and_head(const Settings& settings, size_t layers, size_t heads, std::string_view owner) {
  if (settings.layer.value_or(1) > layers)
    throw UsageError(fmt::format("there is no layer {}: {} has {}", *settings.layer, owner, layers),
                     fmt::format("--layer {}, the last", layers));
  if (settings.head.value_or(1) > heads)
    throw UsageError(fmt::format("there is no head {}: {} has {} a layer", *settings.head, owner, heads),
                     fmt::format("--head {}, the last", heads));
}

}  // namespace bertie::cli
