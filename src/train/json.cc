// What vocabularies, shards and runs report, as JSON; docs/json.md is the page of it.
#include "bertie/json.h"

#include <algorithm>

#include "bertie/json_writer.h"

namespace bertie {
namespace {

// What was wrong with the texts, where anything was.
void add(JsonWriter& json, const TextReport& texts) {
  if (!texts.skipped.empty()) {
    json.key("skipped").begin_array();
    for (const TextReport::SkippedFile& file : texts.skipped) json.value(file.path);
    json.end_array();
  }
  if (texts.invalid_lines > 0)
    json.field("invalid_lines", texts.invalid_lines).field("first_invalid", texts.first_invalid);
  if (texts.dropped_lines > 0)
    json.field("dropped_lines", texts.dropped_lines).field("first_dropped", texts.first_dropped);
}

void add(JsonWriter& json, std::string_view name, const PartSummary& part) {
  json.key(name).begin_object().field("shards", part.shards).field("documents", part.documents);
  json.field("sentences", part.sentences).field("tokens", part.tokens).field("unknown", part.unknown);
  json.field("text_bytes", part.text_bytes).field("file_bytes", part.file_bytes).end_object();
}

}  // namespace

std::string to_json(const LearnedVocabulary& learned, std::string_view out, double seconds) {
  JsonWriter json;
  json.begin_object().field("out", out).field("tokens", learned.tokens.size()).field("words", learned.words);
  json.field("different_words", learned.different_words).field("text_bytes", learned.text_bytes);
  json.field("seconds", seconds);
  add(json, learned.texts);
  return json.end_object().take();
}

std::string to_json(const Prepared& prepared, std::string_view out, double seconds) {
  JsonWriter json;
  json.begin_object().field("out", out);
  add(json, "train", prepared.train);
  add(json, "held_out", prepared.held_out);
  json.field("kept_shards", prepared.kept_shards).field("seconds", seconds);
  json.field("megabytes_per_second", double(prepared.tokenized_bytes) / 1e6 / std::max(seconds, 1e-6));
  add(json, prepared.texts);
  return json.end_object().take();
}

constexpr std::string_view kEnds[] = {"limit", "stopped", "patience"};

std::string to_json(const TrainResult& result, std::string_view resume) {
  JsonWriter json;
  json.begin_object().field("checkpoint", result.checkpoint.string());
  json.field("ended", kEnds[size_t(result.end)]).field("steps", result.step).field("tokens", result.tokens);
  json.field("skipped", result.skipped).field("seconds", result.seconds).field("loss", result.loss);
  if (result.best_step > 0) {
    json.key("best").begin_object().field("step", result.best_step);
    json.field("loss", result.best_loss).end_object();
  }
  if (result.end == TrainEnd::kStopped && !resume.empty()) json.field("resume", resume);
  return json.end_object().take();
}

std::string to_json(const PretrainPreview& preview) {
  JsonWriter json;
  json.begin_object().key("sequences").begin_array();
  for (const PretrainPreview::Sequence& s : preview.sequences) {
    json.begin_object().key("tokens").begin_array();
    for (const PretrainPreview::Token& t : s.tokens) {
      json.begin_object().field("token", t.token);
      if (t.target) json.field("target", *t.target);
      json.end_object();
    }
    json.end_array();
    if (s.label) json.field("label", *s.label);
    json.end_object();
  }
  json.end_array().field("counted", preview.counted).field("tokens", preview.tokens);
  json.field("chosen", preview.chosen).field("masked", preview.masked).field("changed", preview.changed);
  json.field("kept", preview.kept).field("pairs", preview.pairs).field("next", preview.next);
  return json.end_object().take();
}

std::string to_json(const LanguageModelScores& scores, std::string_view model) {
  JsonWriter json;
  json.begin_object()
      .field("model", model)
      .field("sequences", scores.sequences)
      .field("tokens", scores.tokens);
  for (const Metric& m : scores.metrics)
    json.field(m.name + "_loss", m.loss)
        .field(m.name + "_accuracy", m.accuracy)
        .field(m.name + "_count", m.count);
  return json.field("bits_per_byte", scores.bits_per_byte).end_object().take();
}

std::string to_json(const FinetuneResult& result, std::string_view resume) {
  JsonWriter json;
  json.begin_object().field("folder", result.folder.string()).field("ended", kEnds[size_t(result.end)]);
  json.field("rows", result.rows).field("dev_rows", result.dev_rows);
  json.key("seeds").begin_array();
  for (const SeedResult& seed : result.seeds) {
    json.begin_object().field("seed", seed.seed).field("best_step", seed.best_step);
    json.field("seconds", seed.seconds).field("tokens", seed.tokens).key("scores").begin_object();
    for (const NamedScore& s : seed.scores) json.field(s.name, s.value);
    json.end_object().end_object();
  }
  json.end_array();
  if (!result.seeds.empty()) json.field("best_seed", result.seeds[result.best].seed);
  if (!result.teacher.empty()) {
    json.key("teacher").begin_object();
    for (const NamedScore& s : result.teacher) json.field(s.name, s.value);
    json.end_object();
  }
  if (!result.baselines.empty()) {
    json.key("baselines").begin_array();
    for (const BaselineResult& one : result.baselines) {
      json.begin_object().field("name", one.name).field("seconds", one.seconds).key("scores").begin_object();
      for (const NamedScore& s : one.evaluation.scores) json.field(s.name, s.value);
      json.end_object().end_object();
    }
    json.end_array();
  }
  if (!resume.empty()) json.field("resume", resume);
  return json.end_object().take();
}

}  // namespace bertie
