#include "io/tensorflow_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/crc32c.h"
#include "io/protobuf.h"
#include "io/quote.h"

namespace bertie::io {
namespace {

constexpr std::string_view kIndexEnding = ".index";
constexpr std::string_view kFetchAgain = "make or download it again";
constexpr size_t kMaxDataFiles = 1000;

// TensorFlow's numbers for types of numbers.
constexpr std::pair<uint64_t, DType> kTensorFlowTypes[] = {
    {1, DType::kF32},  {2, DType::kF64},  {3, DType::kI32},   {4, DType::kU8},    {5, DType::kI16},
    {6, DType::kI8},   {9, DType::kI64},  {10, DType::kBool}, {14, DType::kBF16}, {17, DType::kU16},
    {19, DType::kF16}, {22, DType::kU32}, {23, DType::kU64}};

// A LevelDB table.
class LevelDbTable {
 public:
  LevelDbTable(std::string_view file, const MessageOrigin& origin, Sums sums)
      : file_(file), origin_(origin), sums_(sums) {}

  using Visit = std::function<void(std::string_view key, std::string_view value)>;

  // Every key and value, in order.
  void each(const Visit& visit) const {
    constexpr size_t kFooter = 48;
    constexpr uint64_t kMagic = 0xDB4775248B80FB57;
    uint64_t magic = 0;
    if (file_.size() >= kFooter)
      std::memcpy(&magic, file_.data() + file_.size() - sizeof magic, sizeof magic);
    if (magic != kMagic) damaged("it does not end as such a table does");
    std::string_view footer = file_.substr(file_.size() - kFooter);
    block_at(footer);  // of other information; there is none
    std::optional<std::string> last;
    each_in_block(block_at(footer), [&](std::string_view, std::string_view handle) {
      each_in_block(block_at(handle), [&](std::string_view key, std::string_view value) {
        if (last && key <= *last) damaged("its names are not in order");
        last = key;
        visit(key, value);
      });
    });
  }

  [[noreturn]] void damaged(std::string_view what) const { MessageFields({}, origin_).damaged(what); }

 private:
  uint64_t varint(std::string_view& bytes) const { return MessageFields::varint(bytes, origin_); }

  // The block whose offset and size are at the front of `handle`, which goes on behind them.
  std::string_view block_at(std::string_view& handle) const {
    constexpr size_t kTrailer = 5;  // kind of compression, sum
    const Checked offset = varint(handle), size = varint(handle);
    if (offset + size + kTrailer > Checked(file_.size())) damaged("a block leads out of the file");
    const std::string_view block = file_.substr(offset.value(), size.value() + 1);
    uint32_t sum;
    std::memcpy(&sum, block.data() + block.size(), sizeof sum);
    if (sums_ == Sums::kCheck && sum != masked_crc32c(crc32c(block))) damaged("a block's sum is wrong");
    if (block.back() != 0)
      throw Error(fmt::format("{} is compressed, as TensorFlow does not do it", origin_.name),
                  "save the checkpoint again with TensorFlow");
    return block.substr(0, size.value());
  }

  // Keys and values, then the places of some keys, which nobody needs who reads all, and the count of these.
  void each_in_block(std::string_view block, const Visit& visit) const {
    uint32_t restarts = 0;
    if (block.size() < sizeof restarts) damaged("a block is too short");
    std::memcpy(&restarts, block.data() + block.size() - sizeof restarts, sizeof restarts);
    const Checked tail = (Checked(restarts) + 1) * sizeof restarts;
    if (tail > Checked(block.size())) damaged("a block is too short");
    block.remove_suffix(tail.value());
    std::string key;
    while (!block.empty()) {
      const uint64_t shared = varint(block), own = varint(block), size = varint(block);
      if (shared > key.size() || Checked(own) + size > Checked(block.size()))
        damaged("a name leads out of its block");
      if (Checked(shared) + own > Checked(kMaxTensorName)) damaged("a name is too long");
      key.resize(shared);
      key += block.substr(0, own);
      visit(key, block.substr(own, size));
      block.remove_prefix(own + size);
    }
  }

  std::string_view file_;
  const MessageOrigin& origin_;
  Sums sums_;
};

// What the index says of a tensor.
struct IndexEntry {
  uint64_t type = 0, shard = 0, offset = 0, size = 0;
  uint32_t sum = 0;
  std::vector<size_t> shape;
  bool in_slices = false;
};

std::vector<size_t> shape_of(std::string_view message, const MessageOrigin& origin) {
  std::vector<size_t> shape;
  for (MessageFields all(message, origin); all.next();) {
    if (all.number() != 2) continue;
    if (shape.size() == kMaxRank) all.damaged("a tensor of too many dimensions");
    size_t& size = shape.emplace_back();
    for (MessageFields one(all.bytes(), origin); one.next();)
      if (one.number() == 1) size = one.value();
  }
  return shape;
}

IndexEntry entry_of(std::string_view message, const MessageOrigin& origin) {
  IndexEntry e;
  for (MessageFields field(message, origin); field.next();) switch (field.number()) {
      case 1:
        e.type = field.value();
        break;
      case 2:
        e.shape = shape_of(field.bytes(), origin);
        break;
      case 3:
        e.shard = field.value();
        break;
      case 4:
        e.offset = field.value();
        break;
      case 5:
        e.size = field.value();
        break;
      case 6:
        e.sum = field.fixed32();
        break;
      case 7:
        e.in_slices = true;
        break;
      default:
        break;
    }
  return e;
}

class CheckpointReader {
 public:
  CheckpointReader(const ModelFiles& files, std::string_view index, Sums sums)
      : files_(files),
        prefix_(index.substr(0, index.size() - kIndexEnding.size())),
        origin_{files.name_of(index), "the index of a TensorFlow checkpoint", std::string(kFetchAgain)},
        sums_(sums) {}

  TensorFlowTensors read(std::string_view index) {
    out_.files.push_back(files_.read(index));
    const LevelDbTable table(out_.files[0].text(), origin_, sums_);
    bool first = true;
    table.each([&](std::string_view name, std::string_view value) {
      if (first && !name.empty()) table.damaged("it has no header");
      std::exchange(first, false) ? read_header(value) : add(name, entry_of(value, origin_));
    });
    if (first) table.damaged("it is empty");
    std::ranges::sort(out_.tensors, {}, &TensorInfo::name);
    const auto twice = std::ranges::adjacent_find(out_.tensors, {}, &TensorInfo::name);
    if (twice != out_.tensors.end()) fail(twice->name, "is there twice");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, std::string_view problem,
                         std::string_view hint = kFetchAgain) const {
    throw Error(fmt::format("{}: tensor {} {}", origin_.name, quote(tensor), problem), std::string(hint));
  }

  void read_header(std::string_view message) {
    for (MessageFields field(message, origin_); field.next();) {
      if (field.number() == 1) shards_ = field.value();
      if (field.number() == 2 && field.value() != 0)
        throw Error(fmt::format("{}: its numbers are big-endian", origin_.name),
                    "save it on an ordinary machine");
    }
    if (shards_ == 0 || shards_ > kMaxDataFiles)
      throw Error(fmt::format("{} says that its numbers are in {} files", origin_.name, shards_),
                  std::string(kFetchAgain));
  }

  std::string_view shard(uint64_t number, std::string_view tensor) {
    if (number >= shards_) fail(tensor, "is in a file that there is not");
    const auto [at, is_new] = opened_.try_emplace(number);
    if (is_new) {
      out_.files.push_back(files_.read(fmt::format("{}.data-{:05}-of-{:05}", prefix_, number, shards_)));
      at->second = out_.files.back().text();
    }
    return at->second;
  }

  void add(std::string_view name, const IndexEntry& e) {
    const auto type = std::ranges::find(kTensorFlowTypes, e.type, &std::pair<uint64_t, DType>::first);
    if (type == std::end(kTensorFlowTypes)) return;  // text, or what only TensorFlow knows
    if (e.in_slices) fail(name, "is stored in slices", "save it with TensorFlow as one variable");
    if (out_.tensors.size() == kMaxTensors)
      throw Error(fmt::format("{}: more than {} tensors", origin_.name, kMaxTensors));
    Checked bytes = size_of(type->second);
    for (const size_t size : e.shape) bytes = bytes * size;
    if (bytes != Checked(e.size))
      fail(name, fmt::format("has {} bytes where its shape needs {}", e.size, bytes.value()));
    const std::string_view file = shard(e.shard, name);
    if (Checked(e.offset) + e.size > Checked(file.size())) fail(name, "reaches beyond its file");
    const std::string_view numbers = file.substr(e.offset, e.size);
    if (sums_ == Sums::kCheck && e.sum != masked_crc32c(crc32c(numbers)))
      fail(name, "is damaged: its sum is wrong");
    // Keras and tf.train.Checkpoint call a variable's value so.
    constexpr std::string_view kValue = "/.ATTRIBUTES/VARIABLE_VALUE";
    if (name.ends_with(kValue)) name.remove_suffix(kValue.size());
    out_.tensors.push_back({.name = std::string(name),
                            .dtype = type->second,
                            .shape = e.shape,
                            .data = std::as_bytes(std::span(numbers))});
  }

  const ModelFiles& files_;
  std::string prefix_;
  MessageOrigin origin_;
  Sums sums_;
  uint64_t shards_ = 1;
  std::map<uint64_t, std::string_view> opened_;
  TensorFlowTensors out_;
};

}  // namespace

bool is_tensorflow_index(std::string_view file) { return file.ends_with(kIndexEnding); }

TensorFlowTensors tensorflow_tensors(const ModelFiles& files, std::string_view index, Sums sums) {
  return CheckpointReader(files, index, sums).read(index);
}

}  // namespace bertie::io
