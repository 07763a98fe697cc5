#include "serve/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "bertie/hub.h"
#include "bertie/info.h"
#include "io/json.h"
#include "serve/request.h"

namespace bertie::serve {
namespace {

constexpr const char *kPrompts = "config_sentence_transformers.json", *kHeads = "heads.json";

std::map<std::string, std::string> prompts_of(const ModelFiles& files) {
  std::map<std::string, std::string> prompts;
  const nlohmann::json config = io::parse_json(files.read(kPrompts).text(), files.name_of(kPrompts));
  if (const auto found = config.find("prompts"); found != config.end() && found->is_object())
    for (const auto& [name, text] : found->items())
      if (text.is_string()) prompts[name] = text.get<std::string>();
  return prompts;
}

// A file that is still being written, or is of another model, keeps nothing else from being served.
bool is_heads_report(const std::string& text, const Config& config) {
  try {
    const nlohmann::json report = io::parse_json(text, kHeads);
    const size_t all = config.depth() * config.heads;
    return report.is_object() && report.value("layers", size_t{0}) == config.depth() &&
           report.value("heads", size_t{0}) == config.heads && report.contains("shares") &&
           report["shares"].is_array() && report["shares"].size() == all && report.contains("relations") &&
           report["relations"].is_array();
  } catch (const Error&) {
    return false;
  } catch (const nlohmann::json::exception&) {  // a field of another type
    return false;
  }
}

ModelPointer load_one(const std::string& name, const ModelFiles& files, const ServeOptions& options) {
  const TextModel all = bertie::load(
      files, {.threads = options.threads, .max_length = options.max_length, .format = options.format});
  ServedModel served{.name = name, .all = all, .one = all.with_threads(1), .loaded_at = std::time(nullptr)};
  if (files.has(kPrompts)) served.prompts = prompts_of(files);
  if (files.has(kHeads)) {
    served.heads = files.read(kHeads).text();
    served.bad_heads = !is_heads_report(served.heads, all.model().config());
    if (served.bad_heads) served.heads.clear();
  }
  // The first call of each packs what it needs, and shows whether there are vectors.
  try {
    (void)served.all.embed(".");
    (void)served.one.embed(".");
  } catch (const Error&) {
    served.embeds = false;
  }
  return std::make_shared<const ServedModel>(std::move(served));
}

std::string names_of(const std::vector<ModelPointer>& models) {
  std::string names;
  for (const ModelPointer& model : models) names += (names.empty() ? "" : ", ") + model->name;
  return names;
}

}  // namespace

void Models::load(const ServeOptions& options) {
  std::vector<ModelPointer> loaded;
  for (const auto& [name, files] : options.models) loaded.push_back(load_one(name, files, options));
  if (options.models.empty())
    for (const std::string& name : embedded_models())
      loaded.push_back(load_one(name, ModelFiles(name), options));
  if (loaded.empty())
    throw Error("no model was given to serve", "bertie serve MODEL, a folder or a name after bertie pull");
  std::lock_guard lock(mutex_);
  models_ = std::move(loaded);
}

std::vector<ModelPointer> Models::all() const {
  std::lock_guard lock(mutex_);
  return models_;
}

ModelPointer Models::find(std::string_view name) const {
  const std::vector<ModelPointer> models = all();
  if (name.empty()) return models.front();
  for (const ModelPointer& model : models)
    if (model->name == name) return model;
  for (const ModelPointer& model : models)
    if (model->name.ends_with(name) && model->name[model->name.size() - name.size() - 1] == '/') return model;
  throw RequestError(404, fmt::format("there is no such model here; there are {}", names_of(models)),
                     "model");
}

template <class Can>
ModelPointer Models::first_that(std::string_view name, std::string_view what, const Can& can) const {
  if (!name.empty()) {
    ModelPointer model = find(name);
    if (can(*model)) return model;
    throw RequestError(422, fmt::format("the model {} is not one for {}", model->name, what), "model");
  }
  for (const ModelPointer& model : all())
    if (can(*model)) return model;
  throw RequestError(422, fmt::format("no model here is one for {}", what), "model");
}

ModelPointer Models::with_head(Head head, std::string_view name) const {
  return first_that(name, head_name(head), [&](const ServedModel& m) { return m.all.can(head); });
}

ModelPointer Models::with_vectors(std::string_view name) const {
  return first_that(name, "sentence vectors", [](const ServedModel& m) { return m.embeds; });
}

}  // namespace bertie::serve
