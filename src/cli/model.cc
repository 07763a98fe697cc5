#include "cli/model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "bertie/hub.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

bool has_model(const Settings& settings) {
  const char* variable = std::getenv("BERTIE_MODEL");
  return settings.model || (variable && *variable);
}

std::string model_name(const Settings& settings) {
  if (!has_model(settings))
    throw UsageError(
        "no model was given",
        "--model NAME (after bertie pull NAME) or --model DIR; once for all: export BERTIE_MODEL=NAME");
  return settings.model ? *settings.model : std::getenv("BERTIE_MODEL");
}

std::string tokenizer_directory(const Settings& settings) {
  const std::string name = model_name(settings);
  try {
    return find_model(name).string();
  } catch (const Error& error) {
    throw Error(fmt::format("{}{}", error.what(), settings.model ? "" : " (from $BERTIE_MODEL)"),
                error.hint());
  }
}

std::string model_directory(const Settings& settings) {
  const std::string name = tokenizer_directory(settings);
  if (ModelFiles(std::filesystem::path(name)).is_model()) return name;
  if (settings.model && name != *settings.model)  // in the cache, but not all of it
    throw Error(fmt::format("the model {} is not complete: {} has no config.json", in_quotes(*settings.model),
                            in_quotes(name)),
                fmt::format("bertie pull {}", *settings.model));
  throw Error(fmt::format("{} is not a model: it has no config.json", in_quotes(name)),
              "a folder with config.json, model.safetensors and tokenizer.json or vocab.txt");
}

WeightFormat weight_format(const Settings& settings) {
  return WeightFormat(settings.precision.value_or(int(WeightFormat::kFloat32)));
}

TextModel load_model(const Settings& settings) {
  return load(std::filesystem::path(model_directory(settings)),
              {.threads = int(settings.threads.value_or(0)),
               .max_length = settings.max_length.value_or(0),
               .strict = settings.strict,
               .warning =
                   [quiet = settings.quiet](std::string_view what) {
                     if (!quiet)
                       warn(what,
                            "--strict takes no such model; bertie convert --drop-unknown makes one without");
                   },
               .format = weight_format(settings)});
}

TextModel load_model(const Settings& settings, Head head) {
  TextModel model = load_model(settings);
  model.require(head);
  return model;
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
