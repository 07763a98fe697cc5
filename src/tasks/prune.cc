#include "bertie/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "model/access.h"
#include "tasks/modules.h"
#include "tasks/new_folder.h"

namespace bertie {
namespace {

// How most of a checkpoint's numbers are stored.
Precision stored_precision(const io::SafeTensors& files) {
  size_t half = 0, bfloat = 0, others = 0;
  for (const io::TensorInfo& t : files.tensors())
    (t.dtype == io::DType::kF16 ? half : t.dtype == io::DType::kBF16 ? bfloat : others) += t.elements();
  if (others >= half && others >= bfloat) return Precision::kFloat32;
  return half >= bfloat ? Precision::kFloat16 : Precision::kBFloat16;
}

// What config.json said, with the heads that are gone now.
std::string pruned_config(std::string_view text, const Config& config) {
  auto tree = nlohmann::ordered_json::parse(text);
  nlohmann::ordered_json gone = nlohmann::ordered_json::object();
  for (size_t l = 0; l < config.pruned_heads.size(); ++l)
    if (!config.pruned_heads[l].empty()) gone[std::to_string(l)] = config.pruned_heads[l];
  tree["pruned_heads"] = std::move(gone);
  return tree.dump(2) + "\n";
}

}  // namespace

Pruned prune(const PruneOptions& options) {
  const std::string below = io::transformer_folder(options.from);
  const ModelFiles inside = options.from.below(below);
  const Model model = Model::load(inside), less = model.pruned(options.heads);
  NewFolder folder(options.to, options.force);
  const std::filesystem::path at = below.empty() ? folder.path() : folder.path() / below;
  less.save(at, stored_precision(weights_of(model).files));
  folder.write(std::filesystem::path(below) / io::kConfigFile,
               pruned_config(inside.read(io::kConfigFile).text(), less.config()));
  folder.take_others(options.from, below, io::kConfigFile);
  check_checkpoint(at);
  folder.commit();
  const auto count = [](const Model& m) {
    size_t heads = 0;
    for (size_t l = 0; l < m.config().depth(); ++l) heads += m.config().heads_of(l).size();
    return heads;
  };
  return {.heads = count(model) - count(less),
          .parameters_before = model.parameters(),
          .parameters = less.parameters()};
}

std::vector<WhichHead> least_important(std::span<const double> importance, const Config& config,
                                       double share) {
  if (!(share > 0 && share < 1))
    throw Error(fmt::format("`share` {} is not between 0 and 1", share), "0.3, say", "share");
  if (importance.size() != config.depth() * config.heads)
    throw Error(fmt::format("{} numbers for {} heads", importance.size(), config.depth() * config.heads));
  std::vector<WhichHead> order;
  std::vector<size_t> left;
  for (size_t l = 0; l < config.depth(); ++l) {
    for (const size_t head : config.heads_of(l)) order.push_back({l, head});
    left.push_back(config.heads_of(l).size());
  }
  const auto wanted = size_t(std::lround(share * double(order.size())));
  std::stable_sort(order.begin(), order.end(), [&](const WhichHead& a, const WhichHead& b) {
    return importance[a.layer * config.heads + a.head] < importance[b.layer * config.heads + b.head];
  });
  std::vector<WhichHead> out;
  for (const WhichHead& which : order) {
    if (out.size() == wanted) break;
    if (left[which.layer] == 1) continue;
    --left[which.layer], out.push_back(which);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace bertie
