#include "bertie/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "model/attention_config.h"
#include "model/config_json.h"
#include "model/weights.h"

namespace bertie {
namespace {

using nlohmann::json;

constexpr std::pair<Problem, const char*> kProblems[] = {
    {Problem::kSingleLabel, "single_label_classification"},
    {Problem::kMultiLabel, "multi_label_classification"},
    {Problem::kRegression, "regression"}};
constexpr size_t kMaxLabels = 100'000;

// {"0": [2, 5]}: the heads that a layer no longer has.
std::vector<std::vector<size_t>> pruned_from(const json& config, const std::string& name, size_t layers,
                                             size_t heads) {
  const auto found = config.find("pruned_heads");
  if (found == config.end() || found->is_null() || found->empty()) return {};
  const auto wrong = [&](const std::string& what) {
    throw Error(fmt::format("{}: pruned_heads {}", name, what),
                "each layer's number, from 0, with a list of its heads' numbers");
  };
  if (!found->is_object()) wrong("must map layers to heads");
  std::vector<std::vector<size_t>> pruned(std::min<size_t>(layers, 1000));
  for (const auto& [key, list] : found->items()) {
    size_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size() || layer >= pruned.size())
      wrong(fmt::format("has {}, which is no layer of {}", io::quote(key), layers));
    if (!list.is_array() || list.size() > heads) wrong(fmt::format("of layer {} is no list of heads", layer));
    for (const json& head : list) {
      if (!head.is_number_unsigned() || head.get<uint64_t>() >= heads)
        wrong(
            fmt::format("of layer {} has {}, which is no head of {}", layer, io::quote(head.dump()), heads));
      pruned[layer].push_back(head.get<size_t>());
    }
    std::sort(pruned[layer].begin(), pruned[layer].end());
    pruned[layer].erase(std::unique(pruned[layer].begin(), pruned[layer].end()), pruned[layer].end());
  }
  return pruned;
}

std::string label_name(size_t i) { return "LABEL_" + std::to_string(i); }

std::vector<std::string> labels_from(const json& config, const std::string& name) {
  std::vector<std::string> labels(io::get_size(config, "num_labels", name, 2, kMaxLabels));
  const auto id2label = config.find("id2label");
  if (id2label != config.end() && !id2label->is_null()) {
    if (!id2label->is_object() || id2label->size() > kMaxLabels)
      throw Error(fmt::format("{}: id2label must map numbers to names", name));
    labels.assign(id2label->size(), "");
    for (const auto& [key, label] : id2label->items()) {
      size_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id >= labels.size() || !label.is_string())
        throw Error(fmt::format("{}: id2label has {} labels but one is {}: {}", name, labels.size(),
                                io::quote(key), io::quote(label.dump())),
                    "number them from 0, each with a name");
      labels[id] = label.get<std::string>();
    }
  }
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i].empty()) labels[i] = label_name(i);
  return labels;
}

}  // namespace

ConfigFile read_config(const ModelFiles& files) {
  const std::string_view file = files.only().empty() ? io::kConfigFile : std::string_view(files.only());
  const std::string name = files.name_of(file);
  return {name, io::parse_json(files.read(file).text(), name)};
}

int32_t token_id(const json& config, const char* key, const std::string& name, int32_t standard) {
  const auto it = config.find(key);
  if (it == config.end()) return standard;
  if (it->is_null()) return -1;
  const json& value = it->is_array() && !it->empty() ? it->front() : *it;  // several ends: the first
  // Not get<int64_t>() < 0: that takes ids of 2⁶³ and more for negative ones.
  if (value.is_number_integer() && !value.is_number_unsigned()) return -1;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > 1u << 24)
    throw Error(fmt::format("{}: {} must be a token's id", name, key));
  return value.get<int32_t>();
}

nlohmann::ordered_json id_or_null(int32_t id) {
  return id >= 0 ? nlohmann::ordered_json(id) : nlohmann::ordered_json();
}

void check_between(const std::string& name, std::string_view key, size_t value, size_t least, size_t most) {
  if (value < least || value > most)
    throw Error(fmt::format("{}: {} is {}; it must be between {} and {}", name, key, value, least, most));
}

void check_dropout(const std::string& name, double rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error(fmt::format("{}: dropout is {}; it must be from 0 to 1", name, rate));
}

Config Config::load(const ModelFiles& files) {
  const ConfigFile config = read_config(files);
  const std::string& name = config.name;
  const nlohmann::json& root = config.root;
  const Family& f = family_of(io::get_string(root, "model_type", name, "bert"), name);
  const std::string position = io::get_string(root, "position_embedding_type", name, "absolute");
  if (position != "absolute")
    throw Error(fmt::format("{}: position_embedding_type is {}; only \"absolute\" is supported", name,
                            io::quote(position)));
  for (const char* key : {"is_decoder", "add_cross_attention"})
    if (!f.causal && io::get_bool(root, key, name, false))
      throw Error(fmt::format("{}: {} is true; {} runs as an encoder", name, key, f.model_type));
  if (f.causal && io::get_bool(root, "add_cross_attention", name, false))
    throw Error(fmt::format("{}: add_cross_attention is true, which is not supported", name));

  Config c = f.standard;  // for keys that are not there
  // DistilBERT and GPT-2 have names of their own, and transformers takes the common ones too.
  static const Family::Keys common;
  const auto size = [&](std::string_view key, std::string_view common_key, size_t standard) {
    return io::get_size(root, root.contains(key) ? key : common_key, name, standard);
  };
  c.layers = size(f.keys.layers, common.layers, c.layers);
  c.hidden = size(f.keys.hidden, common.hidden, c.hidden);
  c.heads = size(f.keys.heads, common.heads, c.heads);
  c.intermediate = size(f.keys.intermediate, common.intermediate, f.causal ? 4 * c.hidden : c.intermediate);
  c.positions = size(f.keys.positions, common.positions, c.positions);
  c.vocabulary = io::get_size(root, "vocab_size", name, c.vocabulary);
  if (!f.embeddings.type.empty()) c.types = io::get_size(root, "type_vocab_size", name, c.types);
  if (!f.keys.eps.empty()) c.layer_norm_eps = io::get_number(root, f.keys.eps, name, c.layer_norm_eps);
  c.initializer_range = io::get_number(root, "initializer_range", name, c.initializer_range);
  c.activation = io::get_string(root, f.keys.activation, name, c.activation);
  if (!f.embeddings.projection.empty()) {
    c.embedding = io::get_size(root, "embedding_size", name, c.embedding);
    c.groups = io::get_size(root, "num_hidden_groups", name, c.groups);
    c.inner_layers = io::get_size(root, "inner_group_num", name, c.inner_layers);
  }
  c.pad_id = token_id(root, "pad_token_id", name, c.pad_id);
  c.bos_id = token_id(root, "bos_token_id", name, c.bos_id);
  c.eos_id = token_id(root, "eos_token_id", name, c.eos_id);
  c.scale_by_layer = io::get_bool(root, "scale_attn_by_inverse_layer_idx", name, false);
  c.scale_scores = io::get_bool(root, "scale_attn_weights", name, true);
  c.tied = io::get_bool(root, "tie_word_embeddings", name, true);
  c.labels = labels_from(root, name);
  c.labels_first_pieces = io::get_bool(root, "labels_first_pieces", name, false);
  const std::string problem = io::get_string(root, "problem_type", name, "");
  for (const auto& [value, word] : kProblems)
    if (problem == word) c.problem = value;
  if (!problem.empty() && c.problem == Problem::kUnset)
    throw Error(fmt::format("{}: problem_type is {}, which is not known", name, io::quote(problem)));
  if (const auto list = root.find("architectures");
      list != root.end() && list->is_array() && !list->empty() && list->front().is_string())
    c.architecture = list->front().get<std::string>();
  c.dropout = io::get_number(root, f.keys.dropout, name, c.dropout);
  c.attention_dropout = io::get_number(root, f.keys.attention_dropout, name, c.attention_dropout);
  const auto own = [&](std::string_view key, double& rate) {
    const auto found = key.empty() ? root.end() : root.find(key);
    if (found == root.end()) return;
    rate = found->is_null() ? -1 : io::get_number(root, key, name, rate);
    if (!found->is_null()) check_dropout(name, rate);
  };
  own(f.keys.classifier_dropout, c.classifier_dropout);
  own(f.keys.embedding_dropout, c.embedding_dropout);
  if (const auto attention = root.find("attention"); attention != root.end() && !attention->is_null())
    c.attention = read_attention(*attention, name);
  c.pruned_heads = pruned_from(root, name, c.layers, c.heads);
  // To a causal model "full" and "causal" are the same.
  if (f.causal && c.attention.look.kind == Look::Kind::kCausal) c.attention.look = Look::full();
  c.check(name);
  return c;
}

std::string Config::to_json() const {
  const Family& f = family_of(model_type, "config");
  nlohmann::ordered_json out;
  if (!architecture.empty()) out["architectures"] = {architecture};
  out["model_type"] = model_type;
  const auto set = [&](std::string_view key, const auto& value) {
    if (!key.empty()) out[std::string(key)] = value;
  };
  set(f.keys.layers, layers), set(f.keys.hidden, hidden), set(f.keys.heads, heads);
  set(f.keys.intermediate, intermediate), set(f.keys.positions, positions), set("vocab_size", vocabulary);
  if (!f.embeddings.type.empty()) set("type_vocab_size", types);
  set(f.keys.eps, layer_norm_eps), set(f.keys.activation, activation);
  if (initializer_range != Config().initializer_range) set("initializer_range", initializer_range);
  set(f.keys.dropout, dropout), set(f.keys.attention_dropout, attention_dropout);
  if (classifier_dropout >= 0) set(f.keys.classifier_dropout, classifier_dropout);
  if (embedding_dropout >= 0) set(f.keys.embedding_dropout, embedding_dropout);
  if (!f.embeddings.projection.empty())
    set("embedding_size", embedding_size()), set("num_hidden_groups", groups),
        set("inner_group_num", inner_layers);
  if (f.causal)
    set("scale_attn_by_inverse_layer_idx", scale_by_layer), set("scale_attn_weights", scale_scores);
  for (const auto& [key, id] :
       {std::pair("pad_token_id", pad_id), {"bos_token_id", bos_id}, {"eos_token_id", eos_id}})
    out[key] = id_or_null(id);
  set("tie_word_embeddings", tied);
  if (labels_first_pieces) set("labels_first_pieces", true);
  for (const auto& [value, word] : kProblems)
    if (problem == value) set("problem_type", word);
  bool plain = labels.size() == 2;
  for (size_t i = 0; i < labels.size(); ++i) plain &= labels[i] == label_name(i);
  if (!plain) {
    // An ordered_json looks keys up one by one: of 100,000 labels that would take minutes.
    nlohmann::ordered_json::object_t names, ids;
    std::unordered_map<std::string_view, size_t> places;
    for (size_t i = 0; i < labels.size(); ++i) {
      names.emplace_back(std::to_string(i), labels[i]);
      const auto [place, is_new] = places.emplace(labels[i], ids.size());
      if (is_new)
        ids.emplace_back(labels[i], i);
      else
        ids.begin()[ptrdiff_t(place->second)].second = i;  // of two labels with one name the last
    }
    out["id2label"] = std::move(names), out["label2id"] = std::move(ids);
  }
  if (!attention.is_standard(causal())) out["attention"] = attention_json(attention);
  for (size_t l = 0; l < pruned_heads.size(); ++l)
    if (!pruned_heads[l].empty()) out["pruned_heads"][std::to_string(l)] = pruned_heads[l];
  return out.dump(2) + "\n";
}

Config Config::named(const std::string& name) {
  static const std::vector<std::pair<std::string_view, Config>> kKnown = [] {
    const auto of = [](const char* type) { return family_of(type, "config").standard; };
    Config minilm;
    minilm.layers = 6, minilm.hidden = 384, minilm.intermediate = 1536;
    Config roberta = of("roberta"), albert = of("albert"), xlm = of("xlm-roberta");
    roberta.positions = xlm.positions = 514, roberta.types = xlm.types = 1;
    roberta.layer_norm_eps = xlm.layer_norm_eps = 1e-5, xlm.vocabulary = 250002;
    albert.hidden = 768, albert.heads = 12, albert.intermediate = 3072;
    return std::vector<std::pair<std::string_view, Config>>{
        {"bert-base", base()},     {"bert-large", large()},   {"minilm", minilm},
        {"roberta-base", roberta}, {"xlm-roberta-base", xlm}, {"distilbert-base", of("distilbert")},
        {"albert-base", albert},   {"gpt2", of("gpt2")}};
  }();
  std::vector<std::string_view> names;
  for (const auto& [known, config] : kKnown) {
    if (known == name) return config;
    names.push_back(known);
  }
  const std::string_view meant = nearest(name, names);
  throw Error(fmt::format("there is no shape {}", io::quote(name)),
              fmt::format("{}known are {}", meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                          fmt::join(names, ", ")),
              "model");
}

void Config::check(const std::string& name) const {
  const Family& f = family_of(model_type, name);
  const auto within = [&](std::string_view key, size_t value, size_t least, size_t most) {
    check_between(name, key, value, least, most);
  };
  within(f.keys.layers, layers, 1, 1000);
  within(f.keys.hidden, hidden, 1, 65536);
  within(f.keys.heads, heads, 1, kMostHeads);
  within(f.keys.intermediate, intermediate, 1, 1 << 20);
  within("vocab_size", vocabulary, 1, 1 << 24);
  within(f.keys.positions, positions, 1, 1 << 20);
  if (!f.embeddings.type.empty()) within("type_vocab_size", types, 1, 1024);
  within("embedding_size", embedding_size(), 1, 65536);
  within("num_hidden_groups", groups, 1, layers);
  within("inner_group_num", inner_layers, 1, 100);
  if (f.layer_of_group.empty() && (groups != 1 || inner_layers != 1))
    throw Error(fmt::format("{}: the layers of a {} model are not in groups", name, model_type));
  if (f.embeddings.projection.empty() && embedding_size() != hidden)
    throw Error(fmt::format("{}: embedding_size {} is not hidden_size {}", name, embedding, hidden));
  if (hidden % heads != 0)
    throw Error(fmt::format("{}: {} {} is not a multiple of {} {}", name, f.keys.hidden, hidden, f.keys.heads,
                            heads));
  if (f.positions_after_pad && (pad_id < 0 || size_t(pad_id) + 1 >= positions))
    throw Error(fmt::format("{}: pad_token_id {} leaves no positions of {}", name, pad_id, positions));
  if (!(layer_norm_eps > 0 && layer_norm_eps < 1))
    throw Error(fmt::format("{}: {} is {}; it must be between 0 and 1", name, f.keys.eps, layer_norm_eps));
  if (!(initializer_range >= 0 && initializer_range < 1))
    throw Error(
        fmt::format("{}: initializer_range is {}; it must be from 0 to below 1", name, initializer_range));
  for (double p :
       {dropout, attention_dropout, std::max(classifier_dropout, 0.0), std::max(embedding_dropout, 0.0)})
    check_dropout(name, p);
  if (labels.empty()) throw Error(fmt::format("{}: id2label is empty", name));
  activation_named(activation, name);
  check_attention(*this, name);
  if (pruned_heads.empty()) return;
  if (!f.layer_of_group.empty())
    throw Error(
        fmt::format("{}: pruned_heads: the layers of a {} model share their heads", name, model_type));
  if (!attention.is_standard(f.causal))
    throw Error(fmt::format("{}: pruned_heads are for BERT's own attention", name));
  if (pruned_heads.size() != layers)
    throw Error(
        fmt::format("{}: pruned_heads of {} layers, where there are {}", name, pruned_heads.size(), layers));
  for (size_t l = 0; l < layers; ++l) {
    const std::vector<size_t>& gone = pruned_heads[l];
    if (gone.size() >= heads) throw Error(fmt::format("{}: pruned_heads leave layer {} no head", name, l));
    for (size_t i = 0; i < gone.size(); ++i)
      if (gone[i] >= heads || (i > 0 && gone[i] <= gone[i - 1]))
        throw Error(fmt::format("{}: pruned_heads of layer {} must be heads from 0 to {}, ascending", name, l,
                                heads - 1));
  }
}

bool Config::has_head(size_t layer, size_t head) const {
  return head < heads && (pruned_heads.empty() || !std::ranges::binary_search(pruned_heads[layer], head));
}

std::vector<size_t> Config::heads_of(size_t layer) const {
  std::vector<size_t> there;
  for (size_t head = 0; head < heads; ++head)
    if (has_head(layer, head)) there.push_back(head);
  return there;
}

size_t Config::max_tokens() const {
  return positions - (family_of(model_type, "config").positions_after_pad ? size_t(pad_id) + 1 : 0);
}

bool Config::causal() const { return family_of(model_type, "config").causal; }

size_t Config::parameters(bool pooler) const {
  Weights weights(*this, "config");
  weights.has_pooler &= pooler;
  weights.declare();
  return count_elements(weights.tensors);
}

}  // namespace bertie
