#include "model/attention_config.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "io/json.h"

namespace bertie {
namespace {

using nlohmann::json, nlohmann::ordered_json;

constexpr std::pair<const char*, Score::Kind> kScores[] = {{"scaled_dot", Score::Kind::kScaledDot},
                                                           {"dot", Score::Kind::kDot},
                                                           {"general", Score::Kind::kGeneral},
                                                           {"additive", Score::Kind::kAdditive}};
constexpr std::pair<const char*, Look::Kind> kLooks[] = {
    {"full", Look::Kind::kFull},        {"causal", Look::Kind::kCausal},
    {"window", Look::Kind::kWindow},    {"window_and_global", Look::Kind::kWindowAndGlobal},
    {"big_bird", Look::Kind::kBigBird}, {"strided", Look::Kind::kStrided},
    {"fixed", Look::Kind::kFixed},      {"adaptive_span", Look::Kind::kAdaptiveSpan}};
constexpr std::pair<const char*, Compute::Kind> kComputes[] = {{"softmax", Compute::Kind::kSoftmax},
                                                               {"linear", Compute::Kind::kLinear},
                                                               {"performer", Compute::Kind::kPerformer},
                                                               {"linformer", Compute::Kind::kLinformer},
                                                               {"nystrom", Compute::Kind::kNystrom}};

template <class Kind, size_t N>
Kind kind_of(const std::pair<const char*, Kind> (&all)[N], const json& object, const char* key,
             const std::string& name) {
  const std::string text = io::get_string(object, key, name, all[0].first);
  std::vector<std::string_view> known;
  for (const auto& [word, kind] : all) {
    if (word == text) return kind;
    known.push_back(word);
  }
  const std::string_view meant = nearest(text, known);
  throw Error(fmt::format("{}: attention.{} is {}, which is not known", name, key, io::quote(text)),
              fmt::format("{}known are {}", meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                          fmt::join(known, ", ")));
}

template <class Kind, size_t N>
const char* name_of(const std::pair<const char*, Kind> (&all)[N], Kind kind) {
  for (const auto& [word, known] : all)
    if (known == kind) return word;
  return "";
}

// The numbers of a mechanism and their keys, said once for reading and writing: visit(key, field).
template <class Config, class Visit>
void visit_numbers(Config& a, const Visit& visit) {
  if (a.score == Score::Kind::kAdditive) visit("score_size", a.score_size);
  switch (a.look.kind) {
    case Look::Kind::kWindow:
      visit("before", a.look.before), visit("after", a.look.after);
      break;
    case Look::Kind::kWindowAndGlobal:
      visit("around", a.look.before);
      break;
    case Look::Kind::kBigBird:
      visit("block", a.look.blocks.block), visit("window", a.look.blocks.window);
      visit("global_blocks", a.look.blocks.global), visit("random", a.look.blocks.random);
      visit("seed", a.look.blocks.seed);
      break;
    case Look::Kind::kFixed:
      visit("summary", a.look.summary);
      [[fallthrough]];
    case Look::Kind::kStrided:
      visit("stride", a.look.stride);
      break;
    case Look::Kind::kAdaptiveSpan:
      visit("ramp", a.look.ramp), visit("span", a.span), visit("both_sides", a.look.both_sides);
      break;
    default:
      break;
  }
  switch (a.compute.kind) {
    case Compute::Kind::kPerformer:
      visit("features", a.compute.features), visit("feature_seed", a.compute.seed);
      break;
    case Compute::Kind::kLinformer:
      visit("rows", a.linformer_rows);
      break;
    case Compute::Kind::kNystrom:
      visit("landmarks", a.compute.landmarks), visit("iterations", a.compute.iterations);
      break;
    default:
      break;
  }
}

}  // namespace

AttentionConfig read_attention(const json& object, const std::string& name) {
  if (!object.is_object()) throw Error(fmt::format("{}: attention must be an object", name));
  AttentionConfig a;
  a.score = kind_of(kScores, object, "score", name);
  a.look.kind = kind_of(kLooks, object, "look", name);
  a.compute.kind = kind_of(kComputes, object, "compute", name);
  a.look.stride = 64, a.look.ramp = 32, a.look.before = a.look.after = 64;
  if (a.compute.kind == Compute::Kind::kPerformer) a.compute = Compute::performer();
  if (a.compute.kind == Compute::Kind::kNystrom) a.compute = Compute::nystrom();
  std::vector<std::string_view> known{"score", "look", "compute", "global"};
  visit_numbers(a, [&](const char* key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, bool>)
      field = io::get_bool(object, key, name, field);
    else if constexpr (std::is_floating_point_v<Field>)
      field = Field(io::get_number(object, key, name, field));
    else
      field =
          Field(io::get_size(object, key, name, size_t(field), size_t(std::numeric_limits<Field>::max())));
    known.push_back(key);
  });
  if (a.look.kind == Look::Kind::kWindowAndGlobal) {
    a.look.after = a.look.before;
    if (const auto list = object.find("global"); list != object.end()) {
      if (!list->is_array())
        throw Error(fmt::format("{}: attention.global must be a list of positions", name));
      for (const json& position : *list) {
        if (!position.is_number_unsigned() || position.get<uint64_t>() > 1 << 20)
          throw Error(fmt::format("{}: attention.global must be a list of positions", name));
        a.global.push_back(position.get<int32_t>());
      }
    }
  }
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(fmt::format("{}: attention.{} is not known", name, key),
                  fmt::format("this mechanism has {}", fmt::join(known, ", ")));
  return a;
}

ordered_json attention_json(const AttentionConfig& a) {
  ordered_json out{{"score", name_of(kScores, a.score)},
                   {"look", name_of(kLooks, a.look.kind)},
                   {"compute", name_of(kComputes, a.compute.kind)}};
  visit_numbers(a, [&](const char* key, const auto& field) { out[key] = field; });
  if (!a.global.empty()) out["global"] = a.global;
  return out;
}

void check_attention(const Config& c, const std::string& name) {
  const AttentionConfig& a = c.attention;
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw Error(fmt::format("{}: attention: {}", name, what));
  };
  const Look& look = a.look;
  const bool softmax = a.compute.kind == Compute::Kind::kSoftmax;
  if (c.causal()) {
    const bool backwards = look.kind == Look::Kind::kFull || look.kind == Look::Kind::kCausal ||
                           look.kind == Look::Kind::kStrided || look.kind == Look::Kind::kFixed ||
                           (look.kind == Look::Kind::kWindow && look.after == 0) ||
                           (look.kind == Look::Kind::kAdaptiveSpan && !look.both_sides);
    need(backwards, fmt::format("a {} sees no tokens that come later", c.model_type));
    need(softmax || a.compute.kind == Compute::Kind::kLinear || a.compute.kind == Compute::Kind::kPerformer,
         "this compute cannot look backwards only");
  }
  need(look.kind != Look::Kind::kMask, "a mask belongs to a batch, not to a model");
  need(softmax || look.kind == Look::Kind::kFull || look.kind == Look::Kind::kCausal,
       "only softmax goes with this look");
  need(softmax || a.score == Score::Kind::kScaledDot || a.score == Score::Kind::kDot,
       "only softmax goes with this score");
  need(a.score != Score::Kind::kAdditive || (a.score_size >= 1 && a.score_size <= 65536),
       "score_size must be from 1 to 65536");
  need(look.blocks.block >= 1 && look.blocks.window % 2 == 1, "block must be 1 or more, and window odd");
  need((look.kind != Look::Kind::kStrided && look.kind != Look::Kind::kFixed) || look.stride >= 1,
       "stride must be 1 or more");
  need(look.kind != Look::Kind::kFixed || (look.summary >= 1 && look.summary <= look.stride),
       "summary must be from 1 to stride");
  // A ramp that is infinite as a float would be written as null.
  need(look.kind != Look::Kind::kAdaptiveSpan ||
           (look.ramp > 0 && look.ramp <= 1e9f && a.span >= 0 && a.span <= 1),
       "ramp must be above 0 and at most 1e9, and span a share from 0 to 1");
  for (size_t i = 0; i < a.global.size(); ++i)
    need(a.global[i] >= 0 && (i == 0 || a.global[i - 1] < a.global[i]), "global positions must increase");
  need(a.compute.kind != Compute::Kind::kLinformer || (a.linformer_rows >= 1 && a.linformer_rows <= 65536),
       "rows must be from 1 to 65536");
  need(
      a.compute.kind != Compute::Kind::kPerformer || (a.compute.features >= 1 && a.compute.features <= 65536),
      "features must be from 1 to 65536");
  need(a.compute.kind != Compute::Kind::kNystrom ||
           (a.compute.landmarks >= 1 && a.compute.iterations >= 1 && a.compute.iterations <= 1000),
       "landmarks must be 1 or more, iterations from 1 to 1000");
}

}  // namespace bertie
