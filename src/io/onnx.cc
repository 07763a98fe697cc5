#include "io/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/model_contents.h"
#include "io/protobuf.h"
#include "io/quote.h"

namespace bertie::io {
namespace {

// ONNX's numbers for the types that weights have.
constexpr std::pair<uint64_t, DType> kOnnxTypes[] = {
    {1, DType::kF32}, {10, DType::kF16}, {11, DType::kF64}, {16, DType::kBF16}};

struct GraphNode {
  std::vector<std::string_view> inputs;
  std::string_view output, name, kind, domain;
};

// A constant of the graph, as far as it may be a weight.
struct GraphConstant {
  uint64_t type = 0;
  std::vector<size_t> shape;
  std::string_view name, numbers, halves;
  bool elsewhere = false;
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

bool is_parameter(std::string_view name) {
  for (std::string_view end : {".weight", ".bias", ".gamma", ".beta"})
    if (name.ends_with(end) && name.find("::") == name.npos && name.find('/') == name.npos) return true;
  return false;
}

class GraphReader {
 public:
  GraphReader(const ModelFiles& files, std::string_view file)
      : files_(files), origin_{files.name_of(file), "an ONNX model"} {}

  OnnxTensors read(std::string_view file) {
    out_.files.push_back(files_.read(file));
    for (MessageFields model(out_.files[0].text(), origin_); model.next();)
      if (model.number() == 7) read_graph(model.bytes());
    for (const GraphNode& node : nodes_) refuse_if_unreadable(node);
    for (const auto& [name, constant] : constants_)
      if (is_parameter(name)) add(std::string(name), constant, false);
    if (out_.tensors.empty())
      fail("it has no weights under names of PyTorch's, such as \"encoder.layer.0.output.dense.bias\"",
           "an encoder, as torch.onnx or optimum exports it");
    name_others();
    strip_wrapper();
    std::ranges::sort(out_.tensors, {}, &TensorInfo::name);
    const auto twice = std::ranges::adjacent_find(out_.tensors, {}, &TensorInfo::name);
    if (twice != out_.tensors.end()) fail(fmt::format("two tensors are called {}", quote(twice->name)));
    return std::move(out_);
  }

 private:
  static constexpr size_t kMaxNodes = 1'000'000;

  [[noreturn]] void fail(std::string_view problem,
                         std::string_view hint = "make or download it again") const {
    throw Error(fmt::format("{}: {}", origin_.name, problem), std::string(hint));
  }

  void read_graph(std::string_view message) {
    for (MessageFields graph(message, origin_); graph.next();) {
      if (graph.number() == 1) {
        if (nodes_.size() == kMaxNodes) fail(fmt::format("more than {} nodes", kMaxNodes));
        nodes_.push_back(node_of(graph.bytes()));
      }
      if (graph.number() == 5) {
        GraphConstant c = constant_of(graph.bytes());
        if (constants_.size() == kMaxTensors) fail(fmt::format("more than {} tensors", kMaxTensors));
        const std::string_view name = c.name;
        if (!constants_.emplace(name, std::move(c)).second)
          fail(fmt::format("two tensors are called {}", quote(name)));
      }
    }
  }

  GraphNode node_of(std::string_view message) const {
    GraphNode node;
    for (MessageFields field(message, origin_); field.next();) {
      if (field.number() == 1) node.inputs.push_back(field.bytes());
      if (field.number() == 2 && node.output.empty()) node.output = field.bytes();
      if (field.number() == 3) node.name = field.bytes();
      if (field.number() == 4) node.kind = field.bytes();
      if (field.number() == 7) node.domain = field.bytes();
    }
    return node;
  }

  GraphConstant constant_of(std::string_view message) const {
    GraphConstant c;
    const auto dimension = [&](const MessageFields& field, uint64_t size) {
      if (c.shape.size() == kMaxRank) field.damaged("a tensor of too many dimensions");
      c.shape.push_back(size);
    };
    for (MessageFields field(message, origin_); field.next();) switch (field.number()) {
        case 1:  // one of them, or all in a list
          if (field.is_number()) dimension(field, field.value());
          for (std::string_view list = field.bytes(); !list.empty();)
            dimension(field, MessageFields::varint(list, origin_));
          break;
        case 2:
          c.type = field.value();
          break;
        case 4:   // 32-bit numbers
        case 10:  // 64-bit numbers
          c.numbers = field.bytes();
          break;
        case 5:
          c.halves = field.bytes();
          break;
        case 8:
          c.name = field.bytes();
          if (!is_plain_name(c.name)) field.damaged("a tensor's name is not plain ASCII");
          break;
        case 9:
          c.numbers = field.bytes();
          break;
        case 13:
          read_place(field.bytes(), c);
          break;
        case 14:
          c.elsewhere = field.value() == 1;
          break;
        default:
          break;
      }
    return c;
  }

  // "location", "offset" and "length", each with its text.
  void read_place(std::string_view message, GraphConstant& c) const {
    std::string_view key, value;
    for (MessageFields field(message, origin_); field.next();) {
      if (field.number() == 1) key = field.bytes();
      if (field.number() == 2) value = field.bytes();
    }
    uint64_t number = 0;
    if (key == "location") c.location = value;
    if (key != "offset" && key != "length") return;
    if (!parse_number(value, number)) fail(fmt::format("{} is {}", key, quote(value)));
    (key == "offset" ? c.offset : c.length.emplace()) = number;
  }

  void refuse_if_unreadable(const GraphNode& node) const {
    const auto says = [&](std::string_view word) { return node.kind.find(word) != node.kind.npos; };
    if (says("uantizeLinear") || says("NBits") || says("Bnb4") || node.kind.ends_with("Integer") ||
        node.kind.starts_with("QLinear"))
      fail(fmt::format("it is quantized ({})", quote(node.kind)),
           "the graph that it was quantized from, mostly model.onnx");
    if (node.domain == "com.microsoft")
      fail(fmt::format("its layers were fused for ONNX Runtime ({})", quote(node.kind)),
           "the graph as it was exported, mostly model.onnx");
  }

  // A tensor of the graph as PyTorch has it; false where it is no weight.
  bool add(std::string name, const GraphConstant& c, bool transpose) {
    const auto type = std::ranges::find(kOnnxTypes, c.type, &std::pair<uint64_t, DType>::first);
    if (type == std::end(kOnnxTypes) || !is_plain_name(name)) return false;
    if (out_.tensors.size() == kMaxTensors) fail(fmt::format("more than {} tensors", kMaxTensors));
    TensorInfo info{.name = std::move(name), .dtype = type->second, .shape = c.shape, .data = {}};
    const size_t bytes = bytes_of(info.dtype, c.shape, origin_.name, c.name);
    const std::string_view numbers = numbers_of(c, bytes);
    if (numbers.size() != bytes)
      fail(fmt::format("tensor {} has {} bytes where its shape needs {}", quote(c.name), numbers.size(),
                       bytes));
    info.data = std::as_bytes(std::span(numbers));
    if (transpose) {
      out_.copies.push_back(transposed(info));
      info.data = out_.copies.back();
      std::swap(info.shape[0], info.shape[1]);
    }
    named_.emplace(info.name, c.name);
    out_.tensors.push_back(std::move(info));
    return true;
  }

  std::string_view numbers_of(const GraphConstant& c, size_t bytes) {
    return c.elsewhere ? outside(c, bytes) : c.halves.empty() ? c.numbers : from_halves(c);
  }

  // 16-bit numbers that are written as a list of varints.
  std::string_view from_halves(const GraphConstant& c) {
    std::vector<std::byte>& copy = out_.copies.emplace_back();
    for (std::string_view list = c.halves; !list.empty();) {
      const uint64_t number = MessageFields::varint(list, origin_);
      for (const int shift : {0, 8}) copy.push_back(std::byte(number >> shift & 0xFF));
    }
    return {reinterpret_cast<const char*>(copy.data()), copy.size()};
  }

  std::string_view outside(const GraphConstant& c, size_t bytes) {
    if (c.location.find('/') != c.location.npos || !is_safe_path(c.location))
      fail(fmt::format("tensor {} is in {}, which is not the plain name of a file beside it", quote(c.name),
                       quote(c.location)));
    auto file = opened_.find(c.location);
    if (file == opened_.end()) {
      out_.files.push_back(files_.read(c.location));
      file = opened_.emplace(c.location, out_.files.back().text()).first;
    }
    const Checked length = c.length.value_or(bytes);
    if (Checked(c.offset) + length > Checked(file->second.size()))
      fail(fmt::format("tensor {} reaches beyond {}", quote(c.name), quote(c.location)));
    return file->second.substr(c.offset, length.value());
  }

  // Constants that have lost their names: matrices, which are stored transposed, and numbers that another
  // parameter has too, which are stored once. Who takes them knows what they are.
  void name_others() {
    std::set<std::string_view> same_as;                        // names that are given by an Identity
    std::map<std::string_view, std::string_view> bias_behind;  // what a node gives, and the bias added to it
    for (const GraphNode& node : nodes_)
      if (node.kind == "Identity" && node.inputs.size() == 1 && is_parameter(node.output)) {
        same_as.insert(node.output);
        add_constant(node.inputs[0], std::string(node.output), false);
      }
    for (const GraphNode& node : nodes_) {
      const std::vector<std::string_view>& in = node.inputs;
      if (node.kind == "LayerNormalization" && in.size() == 3 && in[1].ends_with(".weight"))
        add_constant(in[2], beside(in[1], "weight", "bias"), false);
      for (const size_t i : {0, 1})
        if (node.kind == "Add" && in.size() == 2 && in[i].ends_with(".bias") &&
            (constants_.contains(in[i]) || same_as.contains(in[i])))
          bias_behind.emplace(in[1 - i], in[i]);
    }
    for (const GraphNode& node : nodes_) {
      if (node.kind != "MatMul" || node.inputs.size() != 2 || is_parameter(node.inputs[1])) continue;
      const auto bias = bias_behind.find(node.output);
      if (const std::string module = module_of(node); !module.empty())
        add_constant(node.inputs[1], module + ".weight", true);
      else if (bias != bias_behind.end())
        add_constant(node.inputs[1], matrix_with(bias->second), true);
    }
  }

  // A matrix gets one name: layers that share it take it again and again.
  void add_constant(std::string_view name, std::string called, bool matrix) {
    const auto constant = constants_.find(name);
    if (constant == constants_.end() || (matrix && constant->second.shape.size() != 2)) return;
    if (const auto other = named_.find(called); other != named_.end()) {
      if (matrix && other->second != name && !is_there(called, constant->second))
        fail(fmt::format(
                 "two matrices would be called {}: of parameters with equal numbers, which a model has that "
                 "never learned, the exporter kept one",
                 quote(called)),
             "the model that the graph was exported from");
      return;
    }
    if (matrix && !matrices_.insert(name).second) return;
    add(std::move(called), constant->second, matrix);
  }

  // Whether the tensor of this name is this matrix, stored the other way round too, as a tied decoder's may
  // be.
  bool is_there(const std::string& called, const GraphConstant& c) {
    const auto tensor = std::ranges::find(out_.tensors, called, &TensorInfo::name);
    if (tensor->shape.size() != 2 || tensor->shape[0] != c.shape[1] || tensor->shape[1] != c.shape[0] ||
        tensor->data.size() != bytes_of(tensor->dtype, c.shape, origin_.name, c.name))
      return false;
    const TensorInfo turned{.name = {}, .dtype = tensor->dtype, .shape = tensor->shape, .data = tensor->data};
    return std::ranges::equal(transposed(turned),
                              std::as_bytes(std::span(numbers_of(c, tensor->data.size()))));
  }

  // "encoder.layer.0.output.dense" for the node "/encoder/layer.0/output/dense/MatMul"; "" for "MatMul_7".
  static std::string module_of(const GraphNode& node) {
    const std::string end = fmt::format("/{}", node.kind);
    if (!node.name.starts_with('/') || !node.name.ends_with(end) || node.name.size() <= end.size() + 1)
      return "";
    std::string path(node.name.substr(1, node.name.size() - 1 - end.size()));
    std::ranges::replace(path, '/', '.');
    return path;
  }

  static std::string beside(std::string_view name, std::string_view was, std::string_view is) {
    return std::string(name.substr(0, name.size() - was.size())) + std::string(is);
  }

  static std::string matrix_with(std::string_view bias) {
    // A language model's last bias belongs to the head and not to the layer.
    for (std::string_view head : {"predictions.bias", "lm_head.bias"})
      if (bias.ends_with(head)) return beside(bias, "bias", "decoder.weight");
    return beside(bias, "bias", "weight");
  }

  // sentence-transformers' modules stand before the names: "0.auto_model.embeddings…".
  void strip_wrapper() {
    constexpr std::string_view kAnchor = "embeddings.word_embeddings.weight";
    std::string wrapper;
    for (const TensorInfo& t : out_.tensors)
      if (t.name.ends_with(kAnchor)) wrapper = t.name.substr(0, t.name.size() - kAnchor.size());
    for (std::string_view family : {"bert.", "roberta.", "distilbert.", "albert."})
      if (wrapper.ends_with(family) &&
          (wrapper.size() == family.size() || wrapper[wrapper.size() - family.size() - 1] == '.'))
        wrapper.resize(wrapper.size() - family.size());
    for (TensorInfo& t : out_.tensors)
      if (t.name.starts_with(wrapper)) t.name.erase(0, wrapper.size());
  }

  const ModelFiles& files_;
  MessageOrigin origin_;
  std::vector<GraphNode> nodes_;
  std::map<std::string_view, GraphConstant> constants_;
  std::map<std::string, std::string_view, std::less<>> opened_;
  std::map<std::string, std::string_view> named_;  // what a tensor is called, and the constant that it is
  std::set<std::string_view> matrices_;            // that have a name
  OnnxTensors out_;
};

}  // namespace

bool is_onnx_file(std::string_view file) { return file.ends_with(".onnx"); }

OnnxTensors onnx_tensors(const ModelFiles& files, std::string_view file) {
  return GraphReader(files, file).read(file);
}

}  // namespace bertie::io
