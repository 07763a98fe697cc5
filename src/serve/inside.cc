// What other services do not have: attention, its steps, the senses of a word, how likely a text is, and
// whether one sentence follows another. Layers and heads count from 1, as on the command line; replies are
// the command line's JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/explain.h"
#include "bertie/json.h"
#include "bertie/json_writer.h"
#include "bertie/senses.h"
#include "io/half.h"
#include "io/npy.h"
#include "serve/heads.h"
#include "serve/texts.h"

namespace bertie::serve {

size_t length_of(Call& call, const TextModel& model, const std::string& text,
                 const std::optional<std::string>& pair) {
  const TextPair both{text, pair ? std::string_view(*pair) : std::string_view()};
  return count_tokens(call, model, std::span(&both, 1), {.allowed = false})[0];
}

std::optional<std::string> pair_of(const Fields& fields) {
  if (!fields.has("pair")) return {};
  return fields.string("pair");
}

std::vector<size_t> numbers_of(const Fields& fields, const char* name, size_t most) {
  std::vector<size_t> numbers;
  if (fields.has(name)) {
    for (size_t number : fields.wholes(name, 1, most)) numbers.push_back(number - 1);
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  } else {
    numbers.resize(most);
    std::iota(numbers.begin(), numbers.end(), size_t{0});
  }
  return numbers;
}

namespace {

using nlohmann::json;

constexpr size_t kMostPlaces = 200;                       // of a word, in /senses
constexpr size_t kMostWeights = (size_t{256} << 20) / 4;  // of attention, in one reply

enum class Number { kFloat32, kFloat16, kByte };

Number number_named(std::string_view name) {
  return name == "float32" ? Number::kFloat32 : name == "float16" ? Number::kFloat16 : Number::kByte;
}
const char* numpy_name(Number number) {
  return number == Number::kFloat32 ? "<f4" : number == Number::kFloat16 ? "<f2" : "|u1";
}

std::string bytes_of(std::span<const float> weights, Number number) {
  std::string out;
  if (number == Number::kFloat32)
    return {reinterpret_cast<const char*>(weights.data()), weights.size_bytes()};
  if (number == Number::kFloat16) {
    out.resize(2 * weights.size());
    io::float_to_f16(weights, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  out.reserve(weights.size());
  for (float w : weights) out += char(uint8_t(std::lround(255 * std::clamp(w, 0.0f, 1.0f))));
  return out;
}

// One head after the other: all of them may be hundreds of megabytes of text.
class HeadByHead {
 public:
  HeadByHead(AttentionCache::Pointer attention, std::vector<size_t> layers, std::vector<size_t> heads)
      : attention_(std::move(attention)), layers_(std::move(layers)), heads_(std::move(heads)) {}

  const Attention& attention() const { return *attention_; }
  const std::vector<size_t>& layers() const { return layers_; }
  const std::vector<size_t>& heads() const { return heads_; }
  bool next(Matrix<const float>& weights) {
    if (next_ == layers_.size() * heads_.size()) return false;
    weights = attention_->at(layers_[next_ / heads_.size()], heads_[next_ % heads_.size()]);
    return ++next_, true;
  }
  bool first_of_layer() const { return next_ % heads_.size() == 1 || heads_.size() == 1; }
  bool last_of_layer() const { return next_ % heads_.size() == 0; }
  size_t given() const { return next_; }
  // Bytes that are kept for this reply alone: of a text that is in the cache, none but what is sent.
  size_t holds() const {
    const size_t n = attention_->n();
    const bool whole = attention_->kept.size() == layers_.size();
    return (whole ? attention_->weights.size() : layers_.size() * heads_.size() * n * n) * sizeof(float);
  }

 private:
  AttentionCache::Pointer attention_;
  std::vector<size_t> layers_, heads_;
  size_t next_ = 0;
};

HttpReply attention_json(std::shared_ptr<HeadByHead> heads, const std::string& model,
                         const std::string& more_fields) {
  const Attention& a = heads->attention();
  JsonWriter head;
  head.begin_object().field("model", model).field("tokens", a.tokens).field("ids", a.encoding.ids);
  head.field("types", a.encoding.types).key("offsets").begin_array();
  for (Offset offset : a.encoding.offsets)
    head.begin_array().value(offset.begin).value(offset.end).end_array();
  head.end_array().key("layers").begin_array();
  for (size_t layer : heads->layers()) head.value(layer + 1);
  head.end_array().key("heads").begin_array();
  for (size_t h : heads->heads()) head.value(h + 1);
  head.end_array().key("weights");
  std::string begin = head.take();
  begin.insert(1, more_fields);
  HttpReply reply{.body = std::move(begin) + "[", .holds = heads->holds()};
  reply.more = [heads, ended = false]() mutable -> std::string {
    Matrix<const float> weights;
    if (!heads->next(weights)) return std::exchange(ended, true) ? "" : "]}";
    JsonWriter one;
    one.value(weights);
    std::string text = heads->first_of_layer() ? (heads->given() > 1 ? ",[" : "[") : ",";
    text += one.take();
    if (heads->last_of_layer()) text += "]";
    return text;
  };
  return reply;
}

HttpReply attention_npy(std::shared_ptr<HeadByHead> heads, Number number) {
  const Attention& a = heads->attention();
  const size_t shape[] = {heads->layers().size(), heads->heads().size(), a.n(), a.n()};
  HttpReply reply{.body = io::npy_header(shape, numpy_name(number)),
                  .type = "application/x-npy",
                  .holds = heads->holds()};
  // What the numbers are of does not go into an array.
  JsonWriter tokens;
  tokens.value(a.tokens);
  if (std::string text = tokens.take();
      text.size() < 4096 && std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; }))
    reply.headers.emplace_back("x-tokens", std::move(text));
  reply.more = [heads, number]() -> std::string {
    Matrix<const float> weights;
    if (!heads->next(weights)) return {};
    return bytes_of({weights.data(), weights.rows() * weights.cols()}, number);
  };
  return reply;
}

Async<HttpReply> attention(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layers", "heads", "without", "format", "precision"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const std::string text = fields.string("text");
  const auto pair = pair_of(fields);
  AttendOptions options{.layers = numbers_of(fields, "layers", config.depth())};
  std::vector<size_t> heads = numbers_of(fields, "heads", config.heads);
  const NumberFormat format = number_format_of(fields, {"float32", "float16", "uint8"});
  const size_t n = length_of(call, model->all, text, pair);
  check_weights(options.layers.size(), config.heads, n);
  heads_off_of(fields, config);  // whatever is wrong with them, before the work
  AttentionReply reply{.attention = call.service.attention_cache.find({model, attention_key(fields)}),
                       .layers = options.layers,
                       .heads = std::move(heads),
                       .model = model->name,
                       .format = format};
  if (!reply.attention) {
    Attention made = co_await call.run_alone<Attention>(model, n, [&](const TextModel& m) {
      const TextModel used = model_for(m, fields);
      return pair ? used.attend(text, *pair, options) : used.attend(text, options);
    });
    reply.attention = std::make_shared<const Attention>(std::move(made));
  }
  co_return attention_reply(std::move(reply));
}

Async<HttpReply> explain_steps(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layer", "head", "without"});
  if (!fields.has("text")) {
    const size_t head = fields.whole("head", 1, 1, 2) - 1;
    co_return json_reply(to_json(explain_you_found_me(head), {.text = "You found me"}));
  }
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const std::string text = fields.string("text");
  const auto pair = pair_of(fields);
  const WhichHead which{fields.whole("layer", 1, 1, config.depth()) - 1,
                        fields.whole("head", 1, 1, config.heads) - 1};
  const std::vector<WhichHead> off = heads_off_of(fields, config);
  const size_t tokens = length_of(call, model->all, text, pair);
  const AttentionSteps steps =
      co_await call.run_alone<AttentionSteps>(model, tokens, [&](const TextModel& m) {
        const TextModel used = m.without(off);
        return pair ? explain(used, text, *pair, which) : explain(used, text, which);
      });
  co_return json_reply(
      to_json(steps, {.text = text, .b = pair ? std::optional<std::string_view>(*pair) : std::nullopt}));
}

Async<HttpReply> senses_of_word(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "word", "texts", "layer"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const std::string word = fields.string("word");
  const std::vector<std::string> texts =
      fields.strings("texts", std::min<size_t>(256, call.service.limits.inputs));
  if (texts.size() < 2) throw RequestError(422, "`texts` must be two texts or more", "texts");
  const size_t layer = fields.whole("layer", 0, 1, model->all.model().config().depth());
  size_t tokens = 0;
  for (size_t n : count_tokens(call, model->all, texts, {.allowed = false})) tokens += n;
  const std::string found = co_await call.run_alone<std::string>(model, tokens, [&](const TextModel& m) {
    const Senses s = senses(m, word, texts, kMostPlaces);
    return to_json(s, word, layer ? layer : s.clearest_layer());
  });
  co_return json_reply(found);
}

Async<HttpReply> score(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "texts"});
  const std::string name = fields.string("model", "");
  const auto& models = call.service.models;
  const bool causal = !name.empty() && models.find(name)->all.can(Head::kCausalLm);
  const ModelPointer model = models.with_head(causal ? Head::kCausalLm : Head::kMaskedLm, name);
  const std::vector<std::string> texts = fields.strings("texts", call.service.limits.inputs);
  if (texts.empty()) throw RequestError(400, "`texts` is empty", "texts");
  // Each token is masked in turn, so that a text is read as often as it has tokens.
  std::vector<size_t> work = count_tokens(call, model->all, texts, {.allowed = true});
  if (!causal)
    for (size_t& n : work) n *= n;
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto compute = [](const TextModel& m, std::span<const std::string_view> all) { return m.score(all); };
  const auto scores = co_await call.run<TextScore, std::string_view>(model, "score", std::move(views),
                                                                     std::move(work), compute);
  std::vector<std::string> objects;
  for (size_t i = 0; i < scores.size(); ++i)
    objects.push_back(to_json(scores[i], {.index = i, .text = texts[i]}));
  co_return json_reply(fmt::format("[{}]", fmt::join(objects, ",")));
}

Async<HttpReply> next_sentence(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "pairs"});
  const ModelPointer model = call.service.models.with_head(Head::kNextSentence, fields.string("model", ""));
  const json& list = fields.at("pairs");
  if (!list.is_array() || list.empty())
    throw RequestError(422, "`pairs` must be a list of pairs of texts", "pairs");
  check_count("pairs", list.size(), call.service.limits.inputs);
  std::vector<std::string> texts;
  for (const json& item : list) {
    if (!item.is_array() || item.size() != 2)
      throw RequestError(422, "`pairs` must be a list of pairs of texts", "pairs");
    for (const json& text : item) texts.push_back(string_of(text, "pairs"));
  }
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < texts.size(); i += 2) pairs.push_back({texts[i], texts[i + 1]});
  std::vector<size_t> lengths = count_tokens(call, model->all, pairs, {.allowed = true});
  const auto compute = [](const TextModel& m, std::span<const TextPair> all) { return m.next_sentence(all); };
  const auto found =
      co_await call.run<NextSentence, TextPair>(model, "next sentence", pairs, std::move(lengths), compute);
  std::vector<std::string> objects;
  for (size_t i = 0; i < found.size(); ++i)
    objects.push_back(to_json(found[i], {.index = i, .a = pairs[i].a, .b = pairs[i].b}));
  co_return json_reply(fmt::format("[{}]", fmt::join(objects, ",")));
}

constexpr Route route(std::string_view path, Async<HttpReply> (*run)(Call&)) {
  return {.method = "POST", .path = path, .run = run, .style = ErrorStyle::kTei, .has_body = true};
}
constexpr Route kRoutes[] = {
    route("/attention", attention), route("/explain", explain_steps),       route("/senses", senses_of_word),
    route("/score", score),         route("/next-sentence", next_sentence),
};

}  // namespace

void check_weights(size_t layers, size_t heads, size_t tokens) {
  if (tokens * tokens * heads * layers > kMostWeights)
    throw RequestError(413,
                       fmt::format("{} layers of {} heads for {} tokens are more than one reply may have",
                                   layers, heads, tokens),
                       "layers");
}

NumberFormat number_format_of(const Fields& fields, std::initializer_list<std::string_view> precisions) {
  const NumberFormat format{fields.choice("format", "json", {"json", "npy"}) == "npy",
                            fields.choice("precision", "float32", precisions)};
  if (!format.npy && format.precision != "float32")
    throw RequestError(422, "`precision` is for the format npy: JSON has all digits", "precision");
  return format;
}

HttpReply npy_reply(const Grid& numbers, const std::string& precision) {
  const size_t shape[] = {numbers.rows, numbers.cols};
  const Number number = number_named(precision);
  return {.body = io::npy_header(shape, numpy_name(number)) + bytes_of(numbers.values, number),
          .type = "application/x-npy"};
}

HttpReply attention_reply(AttentionReply reply) {
  auto all = std::make_shared<HeadByHead>(std::move(reply.attention), std::move(reply.layers),
                                          std::move(reply.heads));
  if (!reply.format.npy) return attention_json(all, reply.model, reply.more_fields);
  return attention_npy(all, number_named(reply.format.precision));
}

std::span<const Route> inside_routes() { return kRoutes; }

}  // namespace bertie::serve
