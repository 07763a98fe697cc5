// Every result's JSON; docs/json.md is the page of it. AttentionSteps' is in src/explain/json.cc, training's
// in src/train/json.cc.
#include "bertie/json.h"

#include <fmt/format.h>

#include "bertie/json_writer.h"

namespace bertie {
namespace {

// One object: the input, and what `add` writes.
std::string object(const JsonInput& input, const auto& add) {
  JsonWriter json;
  json.begin_object().fields(input);
  add(json);
  json.end_object();
  return json.take();
}

std::string object(const auto& add) { return object(JsonInput{}, add); }

void list(JsonWriter& json, std::string_view name, const auto& items, const auto& add) {
  json.key(name).begin_array();
  for (const auto& item : items) {
    json.begin_object();
    add(item);
    json.end_object();
  }
  json.end_array();
}

void add_reading(JsonWriter& json, const auto& result) {
  json.field("token_count", result.tokens).field("truncated", result.truncated);
}

void add_offset(JsonWriter& json, Offset offset) {
  json.field("start", offset.begin).field("end", offset.end);
}

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kMaxNewTokens:
      return "max_new_tokens";
    case FinishReason::kEndOfText:
      return "end_of_text";
    case FinishReason::kByCaller:
      return "by_caller";
    case FinishReason::kModelLength:
      break;
  }
  return "model_length";
}

}  // namespace

std::string to_json(const Embedding& e, const JsonInput& input) {
  return to_json(e.values, {.tokens = e.tokens, .truncated = e.truncated, .windows = e.windows}, input);
}

std::string to_json(std::span<const float> vector, const EmbeddedRow& row, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.field("vector", vector);
    add_reading(json, row);
    if (row.windows > 1) json.field("windows", row.windows);
  });
}

std::string to_json(const Attention& attention, const JsonInput& input) {
  std::string out;
  write_json(attention, input, [&](std::string_view piece) { out += piece; });
  return out;
}

void write_json(const Attention& a, const JsonInput& input, const JsonSink& sink) {
  JsonWriter json(&sink);
  json.begin_object().fields(input);
  json.field("tokens", a.tokens).field("ids", a.encoding.ids).field("types", a.encoding.types);
  json.key("kept_layers").begin_array();
  for (size_t layer : a.kept) json.value(layer + 1);
  json.end_array();
  json.field("shape", std::vector<size_t>{a.kept.size(), a.heads, a.n(), a.n()});
  json.key("weights").begin_array();
  for (size_t layer : a.kept) {
    json.begin_array();
    for (size_t head = 0; head < a.heads; ++head) json.value(a.at(layer, head));
    json.end_array();
  }
  json.end_array().end_object().finish();
}

std::string to_json(const MaskFilling& filling, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.key("masks").begin_array();
    for (const std::vector<Fill>& fills : filling.masks) {
      json.begin_array();
      for (const Fill& fill : fills)
        json.begin_object()
            .field("token", fill.token)
            .field("score", fill.score)
            .field("id", fill.id)
            .field("sequence", fill.sequence)
            .end_object();
      json.end_array();
    }
    json.end_array();
    add_reading(json, filling);
  });
}

std::string to_json(const TextScore& score, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.field("log_probability", score.log_probability()).field("perplexity", score.perplexity());
    list(json, "scores", score.scores, [&](const TokenScore& t) {
      json.field("token", t.token).field("id", t.id).field("log_probability", t.log_probability);
      json.field("likeliest", t.likeliest).field("likeliest_id", t.likeliest_id);
      json.field("likeliest_log_probability", t.likeliest_log_probability);
      add_offset(json, t.offset);
    });
    add_reading(json, score);
  });
}

std::string to_json(const NextSentence& next, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.field("is_next", next.is_next);
    add_reading(json, next);
  });
}

std::string to_json(const Classification& classification, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    list(json, "labels", classification.labels,
         [&](const Scored& s) { json.field("label", s.label).field("score", s.score); });
    add_reading(json, classification);
  });
}

std::string to_json(const Tagging& tagging, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    list(json, "entities", tagging.entities, [&](const Entity& e) {
      json.field("label", e.label).field("score", e.score).field("text", e.text).field("word", e.word);
      add_offset(json, e.offset);
      json.field("first_token", e.first_token).field("token_count", e.tokens);
    });
    json.field("windows", tagging.windows);
  });
}

std::string to_json(const Answering& answering, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    list(json, "answers", answering.answers, [&](const Answer& a) {
      json.field("answer", a.text).field("score", a.score);
      add_offset(json, a.offset);
    });
    json.field("windows", answering.windows).field("question_truncated", answering.question_truncated);
  });
}

std::string to_json(const Generation& generation, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.field("generated", generation.text)
        .field("ids", generation.ids)
        .field("finish_reason", name_of(generation.finish_reason))
        .field("prompt_tokens", generation.prompt_tokens)
        .field("prompt_truncated", generation.prompt_truncated);
  });
}

std::string to_json(const Encoding& encoding, const Tokenizer& tokenizer, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) {
    json.key("tokens").begin_array();
    for (int32_t id : encoding.ids) json.value(tokenizer.token(id));
    json.end_array();
    json.field("ids", encoding.ids).field("types", encoding.types);
    json.key("offsets").begin_array();
    for (const Offset& offset : encoding.offsets)
      json.begin_array().value(offset.begin).value(offset.end).end_array();
    json.end_array();
    json.field("truncated", encoding.truncated);
  });
}

std::string to_json(const Ranked& ranked, size_t rank, const JsonInput& input) {
  JsonInput whole = input;
  if (!whole.index) whole.index = ranked.index;
  return object(whole, [&](JsonWriter& json) { json.field("rank", rank).field("score", ranked.score); });
}

std::string scores_to_json(std::span<const float> scores, const JsonInput& input) {
  return object(input, [&](JsonWriter& json) { json.field("scores", scores); });
}

namespace {

void add_shape(JsonWriter& json, const TransformerConfig& c, const ModelInfo& info) {
  json.field("family", "marian").field("kind", "encoder-decoder");
  const auto side = [&](std::string_view name, size_t layers, size_t heads, size_t ffn) {
    json.key(name)
        .begin_object()
        .field("layers", layers)
        .field("heads", heads)
        .field("ffn", ffn)
        .end_object();
  };
  side("encoder", c.encoder_layers, c.encoder_heads, c.encoder_ffn);
  side("decoder", c.decoder_layers, c.decoder_heads, c.decoder_ffn);
  json.field("hidden", c.hidden).field("activation", c.activation).field("vocabulary", c.vocabulary);
  json.field("positions", c.positions).field("parameters", info.parameters);
}

void add_shape(JsonWriter& json, const Config& c, const ModelInfo& info) {
  json.field("family", c.model_type).field("layers", c.depth()).field("hidden", c.hidden);
  json.field("heads", c.heads).field("intermediate", c.intermediate).field("activation", c.activation);
  json.field("vocabulary", c.vocabulary).field("positions", c.positions).field("types", c.types);
  json.field("parameters", info.parameters).field("has_pooler", info.has_pooler);
  json.key("heads_on_top").begin_array();
  for (Head head : info.heads) json.value(head_name(head));
  json.end_array().key("labels");
  info.has_labels() ? json.value(c.labels) : json.null();
  if (!info.no_vectors.empty()) json.field("no_vectors", info.no_vectors);
  if (!info.notice.empty()) json.field("notice", info.notice);
  json.field("dimension", info.dimension).field("pooling", pooling_name(info.pooling));
  json.field("normalize", info.pooling.normalize).field("max_length", info.max_length);
  json.key("tokenizer");
  if (info.tokenizer)
    json.begin_object()
        .field("kind", info.tokenizer->kind)
        .field("cased", info.tokenizer->cased)
        .field("tokens", info.tokenizer->tokens)
        .end_object();
  else
    json.null();
}

}  // namespace

std::string to_json(const ModelInfo& info) {
  return object([&](JsonWriter& json) {
    info.transformer ? add_shape(json, *info.transformer, info) : add_shape(json, *info.config, info);
    json.key("stored").begin_object();
    for (const auto& [type, numbers] : info.stored) json.field(type, numbers);
    json.end_object().key("files").begin_object();
    for (const ModelInfo::File& file : info.files) json.field(file.name, file.bytes);
    json.end_object().key("memory").begin_object().field("weights_bytes", info.weights_bytes);
    if (info.config) json.field("bytes_per_token", info.bytes_per_token);
    json.end_object().field("warnings", info.warnings);
  });
}

std::string to_json(const Conversion& conversion, std::string_view to) {
  return object([&](JsonWriter& json) {
    json.field("to", to).field("tensors", conversion.tensors).field("renamed", conversion.renamed);
    json.field("bytes", conversion.bytes);
    list(json, "dropped", conversion.dropped,
         [&](const DroppedTensor& t) { json.field("name", t.name).field("reason", t.reason); });
    json.field("files", conversion.files);
  });
}

std::string to_json(const PullProgress& progress) {
  return object([&](JsonWriter& json) {
    json.field("file", progress.file).field("done", progress.done).field("total", progress.total);
    if (!progress.waiting.empty()) json.field("waiting", progress.waiting);
  });
}

std::string to_json(const PullResult& result, std::string_view name) {
  return object([&](JsonWriter& json) {
    json.field("name", name).field("commit", result.commit).field("path", result.path.string());
    json.field("files", result.files).field("bytes", result.bytes).field("downloaded", result.downloaded);
  });
}

std::string to_json(const CachedModel& model) {
  return object([&](JsonWriter& json) {
    json.field("name", model.name).field("commit", model.commit).field("refs", model.refs);
    json.field("model_type", model.model_type).field("bytes", model.bytes);
    json.field("complete", model.problem.empty()).field("problem", model.problem);
    json.field("path", model.path.string());
  });
}

}  // namespace bertie
