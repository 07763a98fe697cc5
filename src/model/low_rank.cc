#include "model/low_rank.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "io/quote.h"
#include "kernels/matmul.h"

namespace bertie {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kWeight = ".weight";

// NAME of "NAME.lora_A.weight"; empty for a name that ends otherwise.
std::string_view stem(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string_view();
}

struct Change {
  const io::TensorInfo *w = nullptr, *a = nullptr, *b = nullptr;
};

std::vector<float> floats_of(const io::TensorInfo& t) {
  std::vector<float> out(t.elements());
  io::to_float(t, 0, out);
  return out;
}

// W + B·A, as bytes of F32.
std::vector<std::byte> changed(const Change& c, Team& team) {
  const size_t outputs = c.w->shape[0], inputs = c.w->shape[1], rank = c.a->shape[0];
  std::vector<std::byte> bytes(c.w->elements() * sizeof(float));
  const std::span<float> w(reinterpret_cast<float*>(bytes.data()), c.w->elements());
  io::to_float(*c.w, 0, w);
  const std::vector<float> a = floats_of(*c.a), b = floats_of(*c.b);
  std::vector<float> workspace(kernels::matmul_workspace_floats(rank, inputs));
  kernels::matmul(Matrix<const float>(b.data(), outputs, rank), Matrix<const float>(a.data(), rank, inputs),
                  Matrix<float>(w.data(), outputs, inputs), workspace.data(), team,
                  kernels::Accumulate::kYes);
  return bytes;
}

void check(std::string_view name, const Change& c, const std::string& where) {
  for (const auto& [tensor, end] : {std::pair(c.w, kWeight), {c.a, kA}, {c.b, kB}})
    if (!tensor)
      throw Error(
          fmt::format("{}: tensor {} is missing", where, io::quote(std::string(name) + std::string(end))),
          "a low-rank change has a weight, a lora_A and a lora_B");
  for (const io::TensorInfo* tensor : {c.w, c.a, c.b})
    if (tensor->shape.size() != 2)
      throw Error(fmt::format("{}: tensor {} has {} dimensions; one with a low-rank change has 2", where,
                              io::quote(tensor->name), tensor->shape.size()));
  if (c.a->shape[1] != c.w->shape[1] || c.b->shape[0] != c.w->shape[0] || c.a->shape[0] != c.b->shape[1])
    throw Error(fmt::format("{}: {} of [{}] times {} of [{}] is no change of {} of [{}]", where,
                            io::quote(c.b->name), fmt::join(c.b->shape, ", "), io::quote(c.a->name),
                            fmt::join(c.a->shape, ", "), io::quote(c.w->name), fmt::join(c.w->shape, ", ")),
                "the weights and their changes belong to different models");
}

}  // namespace

io::SafeTensors apply_low_rank(io::SafeTensors stored, const std::string& where) {
  std::map<std::string_view, Change> changes;
  for (const io::TensorInfo& t : stored.tensors()) {
    if (const std::string_view name = stem(t.name, kA); !name.empty()) changes[name].a = &t;
    if (const std::string_view name = stem(t.name, kB); !name.empty()) changes[name].b = &t;
  }
  if (changes.empty()) return stored;
  Team team;
  std::vector<io::TensorInfo> tensors;
  std::vector<std::vector<std::byte>> copies;
  for (auto& [name, change] : changes) {
    change.w = stored.find(std::string(name) + std::string(kWeight));
    check(name, change, where);
    copies.push_back(changed(change, team));
    tensors.push_back(
        {.name = change.w->name, .dtype = io::DType::kF32, .shape = change.w->shape, .data = copies.back()});
  }
  for (const io::TensorInfo& t : stored.tensors()) {
    const std::string_view name = stem(t.name, kWeight);
    const bool is_part = !stem(t.name, kA).empty() || !stem(t.name, kB).empty() || changes.contains(name);
    if (!is_part) tensors.push_back(t);
  }
  return std::move(stored).with(std::move(tensors), std::move(copies));
}

}  // namespace bertie
