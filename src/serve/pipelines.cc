// Hugging Face's inference: /pipeline/TASK and /models/NAME/pipeline/TASK, with transformers' parameters, in
// the shapes that huggingface_hub's InferenceClient expects. Requests are {"inputs": …, "parameters": {…}}.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bertie/json_writer.h"
#include "bertie/similarity.h"
#include "serve/heads.h"
#include "serve/texts.h"

namespace bertie::serve {
namespace {

using nlohmann::json;

// What a task needs of a request: the name of the model in the path, or in `model`.
struct Asked {
  Call& call;
  std::string model;
  Fields fields, parameters;
  const json& inputs;

  size_t top_k(size_t otherwise, const char* name = "top_k") const {
    return parameters.whole(name, otherwise, 1, call.service.limits.top_k);
  }
  // Heads of the model that give nothing, for those tasks that take it.
  std::vector<WhichHead> without(const ServedModel& served) const {
    return heads_off_of(parameters, served.all.model().config());
  }
  // One text, or many; `many` says how the reply is nested.
  std::vector<std::string> texts(bool& many) const {
    many = inputs.is_array();
    std::vector<std::string> all = strings_of(inputs, "inputs", call.service.limits.inputs);
    if (all.empty()) throw RequestError(400, "`inputs` is empty", "inputs");
    return all;
  }
};

constexpr Cut kMayCut{.allowed = true};

template <class Item, class Write>
HttpReply reply_of(const std::vector<Item>& items, bool many, const Write& write) {
  JsonWriter out;
  if (many) out.begin_array();
  for (const Item& item : items) write(out, item);
  if (many) out.end_array();
  return json_reply(out.take());
}

Async<HttpReply> feature_extraction(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_vectors(asked.model);
  std::optional<bool> normalize;
  if (asked.fields.has("normalize")) normalize = asked.fields.boolean("normalize", false);
  std::vector<Ids> ids = ids_of(asked.call, model->all, asked.inputs, "inputs", cut_of(asked.fields, true),
                                prompt_of(*model, asked.fields));
  const auto rows = co_await vectors(asked.call, model, std::move(ids), {.normalize = normalize});
  co_return reply_of(rows, asked.inputs.is_array(),
                     [](JsonWriter& out, const std::vector<float>& row) { out.value(row); });
}

Async<HttpReply> sentence_similarity(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_vectors(asked.model);
  if (!asked.inputs.is_object())
    throw RequestError(422, "`inputs` must be an object with `source_sentence` and `sentences`", "inputs");
  const Fields inputs(asked.inputs, "inputs");
  std::vector<std::string> texts = inputs.strings("sentences", asked.call.service.limits.inputs);
  if (texts.empty()) throw RequestError(400, "`inputs.sentences` is empty", "inputs.sentences");
  texts.push_back(inputs.string("source_sentence"));
  std::vector<Ids> ids = tokenize(asked.call, model->all, texts,
                                  cut_of(asked.parameters, asked.call.route.path != "/similarity"));
  const auto rows = co_await vectors(asked.call, model, std::move(ids), {.normalize = {}});
  JsonWriter out;
  out.begin_array();
  for (size_t i = 0; i + 1 < rows.size(); ++i) out.value(cosine(rows.back(), rows[i]));
  out.end_array();
  co_return json_reply(out.take());
}

Async<HttpReply> fill_mask(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_head(Head::kMaskedLm, asked.model);
  bool many;
  const std::vector<std::string> texts = asked.texts(many);
  FillMaskOptions options{.top = asked.top_k(5)};
  if (asked.parameters.has("targets"))
    options.targets = asked.parameters.strings("targets", asked.call.service.limits.top_k);
  std::vector<size_t> lengths = count_tokens(asked.call, model->all, texts, kMayCut);
  // Each proposal for each mask has the whole text.
  const std::string mask(model->all.tokenizer().token(model->all.tokenizer().mask_id()));
  for (const std::string& text : texts) {
    size_t masks = 0;
    for (size_t at = 0; (at = text.find(mask, at)) != text.npos; at += mask.size()) ++masks;
    check_product(asked.call, texts.size() * masks * options.top, text.size(), "inputs");
  }
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<WhichHead> off = asked.without(*model);
  const std::string kind =
      fmt::format("fill-mask {} {}{}", options.top, json(options.targets).dump(), kind_of(off));
  const auto compute = [options, off](const TextModel& m, std::span<const std::string_view> all) {
    return m.without(off).fill_mask(all, options);
  };
  const auto filled = co_await asked.call.run<MaskFilling, std::string_view>(model, kind, std::move(views),
                                                                             std::move(lengths), compute);
  for (const MaskFilling& one : filled)
    if (one.masks.empty())
      throw RequestError(422,
                         fmt::format("`inputs` has a text without {}",
                                     model->all.tokenizer().token(model->all.tokenizer().mask_id())),
                         "inputs");
  co_return reply_of(filled, many, [](JsonWriter& out, const MaskFilling& one) {
    if (one.masks.size() > 1) out.begin_array();
    for (const std::vector<Fill>& fills : one.masks) {
      out.begin_array();
      for (const Fill& fill : fills) {
        out.begin_object().field("score", fill.score).field("token", fill.id).field("token_str", fill.token);
        out.field("sequence", fill.sequence).end_object();
      }
      out.end_array();
    }
    if (one.masks.size() > 1) out.end_array();
  });
}

Async<HttpReply> text_classification(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_head(Head::kClassify, asked.model);
  const std::string function =
      asked.parameters.choice("function_to_apply", "", {"", "softmax", "sigmoid", "none"});
  const Apply apply = function == "softmax"   ? Apply::kSoftmax
                      : function == "sigmoid" ? Apply::kSigmoid
                      : function == "none"    ? Apply::kNothing
                                              : Apply::kByProblem;
  // A text, a list of texts, or an object with text and text_pair, or a list of these.
  std::vector<std::string> parts;  // two for each, the second perhaps missing
  std::vector<bool> paired;
  const auto add = [&](const json& item) {
    if (!item.is_object())
      return parts.push_back(string_of(item, "inputs")), parts.emplace_back(), paired.push_back(false);
    const Fields pair(item, "inputs");
    parts.push_back(pair.string("text")), parts.push_back(pair.string("text_pair", "")),
        paired.push_back(pair.has("text_pair"));
  };
  if (asked.inputs.is_array()) check_count("inputs", asked.inputs.size(), asked.call.service.limits.inputs);
  if (asked.inputs.is_array())
    for (const json& item : asked.inputs) add(item);
  else
    add(asked.inputs);
  if (paired.empty()) throw RequestError(400, "`inputs` is empty", "inputs");
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < paired.size(); ++i) {
    if (paired[i] != paired[0]) throw RequestError(422, "`inputs` must be all texts, or all pairs", "inputs");
    pairs.push_back({parts[2 * i], paired[i] ? std::string_view(parts[2 * i + 1]) : std::string_view()});
  }
  const auto found = co_await labels(asked.call, model, pairs, apply, kMayCut, asked.without(*model));
  const size_t top = asked.top_k(found[0].labels.size());
  // Nested for a single text, too: that is what InferenceClient takes apart.
  co_return reply_of(found, true, [&](JsonWriter& out, const Classification& one) {
    out.begin_array();
    for (size_t i = 0; i < std::min(top, one.labels.size()); ++i)
      out.begin_object().field("label", one.labels[i].label).field("score", one.labels[i].score).end_object();
    out.end_array();
  });
}

Async<HttpReply> token_classification(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_head(Head::kTag, asked.model);
  bool many;
  const std::vector<std::string> texts = asked.texts(many);
  TagOptions options;
  std::string strategy;  // empty: as suits the model
  if (asked.parameters.has("aggregation_strategy"))
    strategy = asked.parameters.choice("aggregation_strategy", "simple",
                                       {"none", "simple", "first", "average", "max"});
  for (auto [name, aggregation] : {std::pair("none", Aggregation::kNone),
                                   {"simple", Aggregation::kSimple},
                                   {"first", Aggregation::kFirst},
                                   {"average", Aggregation::kAverage},
                                   {"max", Aggregation::kMax}})
    if (strategy == name) options.aggregation = aggregation;
  if (asked.parameters.has("stride"))
    options.stride = asked.parameters.whole("stride", 0, 0, model->all.task_max_length() / 2);
  // Labels that are left out; "O" unless said otherwise.
  std::vector<std::string> ignored{"O"};
  if (asked.parameters.has("ignore_labels"))
    ignored = asked.parameters.strings("ignore_labels", asked.call.service.limits.top_k);
  options.keep_outside = std::ranges::find(ignored, "O") == ignored.end();
  const std::vector<WhichHead> off = asked.without(*model);
  // A long text goes in windows, and all its tokens count.
  std::vector<size_t> lengths;
  for (const std::string& text : texts)
    lengths.push_back(model->all.tokenizer().encode(text).size()), asked.call.count(text);
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::string kind = fmt::format("tag {} {} {}{}", strategy, options.stride.value_or(SIZE_MAX),
                                       options.keep_outside, kind_of(off));
  const auto compute = [options, off](const TextModel& m, std::span<const std::string_view> all) {
    return m.without(off).tag(all, options);
  };
  const auto tagged = co_await asked.call.run<Tagging, std::string_view>(model, kind, std::move(views),
                                                                         std::move(lengths), compute);
  const bool grouped = strategy != "none";
  co_return reply_of(tagged, many, [&](JsonWriter& out, const Tagging& one) {
    out.begin_array();
    for (const Entity& e : one.entities) {
      if (std::ranges::find(ignored, e.label) != ignored.end()) continue;
      out.begin_object().field(grouped ? "entity_group" : "entity", e.label).field("score", e.score);
      if (!grouped) out.field("index", e.first_token);
      out.field("word", e.word).field("start", e.offset.begin).field("end", e.offset.end).end_object();
    }
    out.end_array();
  });
}

Async<HttpReply> question_answering(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_head(Head::kAnswer, asked.model);
  if (!asked.inputs.is_object())
    throw RequestError(422, "`inputs` must be an object with `question` and `context`", "inputs");
  const Fields inputs(asked.inputs, "inputs");
  const std::string question = inputs.string("question"), context = inputs.string("context");
  const size_t longest = model->all.task_max_length();
  AnswerOptions options{.top = asked.top_k(1)};
  options.max_answer_tokens = asked.parameters.whole("max_answer_len", 15, 1, 512);
  options.max_question_tokens =
      asked.parameters.whole("max_question_len", std::min<size_t>(64, longest / 2), 1, longest / 2);
  options.allow_no_answer = asked.parameters.boolean("handle_impossible_answer", false);
  options.whole_words = asked.parameters.boolean("align_to_words", true);
  const size_t window = asked.parameters.whole("max_seq_len", std::min<size_t>(384, longest), 8, longest);
  options.max_length = window;
  asked.call.count(question), asked.call.count(context);
  // What windows share is read again and again: they may share half of what they have room for.
  const Tokenizer& tokenizer = model->all.tokenizer();
  const size_t asked_tokens =
      std::min(tokenizer.encode(question, {.add_special_tokens = false}).size(), options.max_question_tokens);
  const size_t special = tokenizer.encode("", "").size(), used = asked_tokens + special;
  if (used + 4 > window)
    throw RequestError(422, "`parameters.max_seq_len` leaves no room for the context",
                       "parameters.max_seq_len");
  const size_t room = window - used;
  const size_t stride = asked.parameters.whole("doc_stride", std::min<size_t>(128, room / 2), 0, room / 2);
  options.stride = stride;
  const size_t tokens = tokenizer.encode(context, {.add_special_tokens = false}).size();
  const size_t windows = tokens <= room ? 1 : 1 + (tokens - room + room - stride - 1) / (room - stride);
  const std::vector<WhichHead> off = asked.without(*model);
  const auto compute = [&](const TextModel& m) { return m.without(off).answer(question, context, options); };
  const Answering found = co_await asked.call.run_alone<Answering>(model, windows * window, compute);
  if (found.answers.empty()) co_return json_reply(R"({"score":0.0,"start":0,"end":0,"answer":""})");
  // One object, or a list where more than one was asked for.
  co_return reply_of(found.answers, asked.parameters.has("top_k") && options.top > 1,
                     [](JsonWriter& out, const Answer& answer) {
                       out.begin_object().field("score", answer.score).field("start", answer.offset.begin);
                       out.field("end", answer.offset.end).field("answer", answer.text).end_object();
                     });
}

// Which labels fit a text, by a model that tells whether one sentence follows from another (NLI): each label
// in a sentence is a hypothesis.
Async<HttpReply> zero_shot_classification(Asked asked) {
  const auto& models = asked.call.service.models;
  const auto entailment_of = [](const ServedModel& model) {
    const auto& all = model.all.model().config().labels;
    return size_t(std::ranges::find_if(all,
                                       [](std::string label) {
                                         std::ranges::transform(label, label.begin(), [](char c) {
                                           return c >= 'A' && c <= 'Z' ? char(c + 32) : c;
                                         });
                                         return label.starts_with("entail");
                                       }) -
                  all.begin());
  };
  const auto is_nli = [&](const ServedModel& model) {
    return model.all.can(Head::kClassify) && entailment_of(model) < model.all.model().config().labels.size();
  };
  ModelPointer model = asked.model.empty() ? nullptr : models.find(asked.model);
  for (const ModelPointer& one : models.all())
    if (!model && is_nli(*one)) model = one;
  if (!model || !is_nli(*model))
    throw RequestError(
        422, "zero-shot classification needs a model for inference (NLI), with a label \"entailment\"",
        "model");
  const std::string premise = string_of(asked.inputs, "inputs");
  const std::vector<std::string> candidates = asked.parameters.strings(
      "candidate_labels",
      std::min<size_t>(asked.call.service.limits.inputs, asked.call.service.limits.top_k));
  if (candidates.empty())
    throw RequestError(422, "`parameters.candidate_labels` is empty", "parameters.candidate_labels");
  const bool several = asked.parameters.boolean("multi_label", false);
  const std::string frame = asked.parameters.string("hypothesis_template", "This example is {}.");
  const size_t gap = frame.find("{}");
  if (gap == frame.npos)
    throw RequestError(422, "`parameters.hypothesis_template` must have {} in it",
                       "parameters.hypothesis_template");
  check_product(asked.call, candidates.size(), frame.size() + premise.size(), "inputs");
  std::vector<std::string> hypotheses;
  for (const std::string& label : candidates)
    hypotheses.push_back(frame.substr(0, gap) + label + frame.substr(gap + 2));
  std::vector<TextPair> pairs;
  for (const std::string& hypothesis : hypotheses) pairs.push_back({premise, hypothesis});
  const auto logits = co_await labels(asked.call, model, pairs, Apply::kNothing, kMayCut);
  const auto& names = model->all.model().config().labels;
  const size_t entails = entailment_of(*model), contradicts = entails == 0 ? names.size() - 1 : 0;
  const auto logit = [&](const Classification& one, size_t label) {
    for (const Scored& s : one.labels)
      if (s.label == names[label]) return double(s.score);
    return 0.0;
  };
  std::vector<Scored> scored;
  double sum = 0, most = -INFINITY;
  for (const Classification& one : logits) most = std::max(most, logit(one, entails));
  for (const Classification& one : logits) sum += std::exp(logit(one, entails) - most);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double entailment = logit(logits[i], entails);
    const double p = several || candidates.size() == 1
                         ? 1 / (1 + std::exp(logit(logits[i], contradicts) - entailment))
                         : std::exp(entailment - most) / sum;
    scored.push_back({candidates[i], float(p)});
  }
  std::ranges::stable_sort(scored, std::greater(), &Scored::score);
  // huggingface_hub takes a list of objects since 1.0; before that it took an object of two lists.
  JsonWriter out;
  if (asked.call.request().header("user-agent").find("hf_hub/0.") != std::string_view::npos) {
    out.begin_object().field("sequence", premise).key("labels").begin_array();
    for (const Scored& s : scored) out.value(s.label);
    out.end_array().key("scores").begin_array();
    for (const Scored& s : scored) out.value(s.score);
    out.end_array().end_object();
    co_return json_reply(out.take());
  }
  out.begin_array();
  for (const Scored& s : scored)
    out.begin_object().field("label", s.label).field("score", s.score).end_object();
  out.end_array();
  co_return json_reply(out.take());
}

Async<HttpReply> text_generation(Asked asked) {
  const ModelPointer model = asked.call.service.models.with_head(Head::kCausalLm, asked.model);
  const std::string prompt = string_of(asked.inputs, "inputs");
  const Fields& p = asked.parameters;
  if (asked.fields.boolean("stream", false))
    throw RequestError(422, "`stream` is not offered: the reply comes whole", "stream");
  for (const char* name : {"stop", "stop_sequences"})
    if (p.has(name))
      throw RequestError(422, fmt::format("`parameters.{}` is not offered", name), p.path(name));
  GenerateOptions options{.max_new_tokens = p.whole("max_new_tokens", 50, 1, 1024)};
  const bool draws = p.boolean("do_sample", p.has("temperature") || p.has("top_k") || p.has("top_p"));
  options.temperature = draws ? p.number("temperature", 1, 0.01, 100) : 0;
  options.top_k = p.whole("top_k", 0, 0, 1'000'000);
  options.top_p = p.number("top_p", 1, 0.001, 1);
  options.repetition_penalty = p.number("repetition_penalty", 1, 0.01, 100);
  options.seed = p.whole("seed", p.has("seed") || !draws ? 1 : std::random_device{}(), 0, SIZE_MAX);
  asked.call.count(prompt);
  const size_t tokens = model->all.tokenizer().encode(prompt).size() + options.max_new_tokens;
  const auto client = asked.call.exchange;
  options.on_text = [client](std::string_view) { return !client->gone(); };
  const Generation made = co_await asked.call.run_alone<Generation>(
      model, tokens, [&](const TextModel& m) { return m.generate(prompt, options); });
  const bool whole = p.boolean("return_full_text", false);
  JsonWriter out;
  out.begin_array()
      .begin_object()
      .field("generated_text", (whole ? prompt : "") + made.text)
      .end_object()
      .end_array();
  co_return json_reply(out.take());
}

struct PipelineTask {
  std::string_view name;
  Async<HttpReply> (*run)(Asked);
};
constexpr PipelineTask kTasks[] = {
    {"feature-extraction", feature_extraction},
    {"sentence-similarity", sentence_similarity},
    {"fill-mask", fill_mask},
    {"text-classification", text_classification},
    {"token-classification", token_classification},
    {"question-answering", question_answering},
    {"zero-shot-classification", zero_shot_classification},
    {"text-generation", text_generation},
};

Async<HttpReply> run_task(Call& call, std::string_view task, std::string model) {
  for (const PipelineTask& one : kTasks)
    if (one.name == task) {
      const Fields fields = call.fields();
      if (model.empty()) model = fields.string("model", "");
      return one.run({call, std::move(model), fields, fields.object("parameters"), fields.at("inputs")});
    }
  std::string names;
  for (const PipelineTask& one : kTasks) names += (names.empty() ? "" : ", ") + std::string(one.name);
  throw RequestError(404, fmt::format("there is no such task; there are {}", names));
}

Async<HttpReply> pipeline(Call& call) { return run_task(call, call.below, ""); }

// /models/NAME/pipeline/TASK, where NAME may have slashes of its own.
Async<HttpReply> pipeline_of_model(Call& call) {
  constexpr std::string_view kBetween = "/pipeline/";
  const size_t at = call.below.rfind(kBetween);
  if (at == std::string::npos)
    throw RequestError(404, "there is nothing here: /models/NAME/pipeline/TASK is what there is");
  return run_task(call, std::string_view(call.below).substr(at + kBetween.size()), call.below.substr(0, at));
}

Async<HttpReply> similarity(Call& call) { return run_task(call, "sentence-similarity", ""); }

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/pipeline/",
     .run = pipeline,
     .style = ErrorStyle::kHuggingFace,
     .has_body = true},
    {.method = "POST",
     .path = "/models/",
     .run = pipeline_of_model,
     .style = ErrorStyle::kHuggingFace,
     .has_body = true},
    {.method = "POST", .path = "/similarity", .run = similarity, .style = ErrorStyle::kTei, .has_body = true},
};

}  // namespace

std::span<const Route> pipeline_routes() { return kRoutes; }

}  // namespace bertie::serve
