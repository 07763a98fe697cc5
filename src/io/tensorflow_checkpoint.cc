#include "io/tensorflow_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/crc32c.h"
#include "io/protobuf.h"
#include "io/quote.h"

namespace bertie::io {
namespace {

constexpr std::string_view kIndexEnding = ".index";
constexpr size_t kMaxDataFiles = 1000;

// TensorFlow's numbers for types of numbers.
constexpr std::pair<uint64_t, DType> kTensorFlowTypes[] = {
    {1, DType::kF32},  {2, DType::kF64},  {3, DType::kI32},   {4, DType::kU8},    {5, DType::kI16},
    {6, DType::kI8},   {9, DType::kI64},  {10, DType::kBool}, {14, DType::kBF16}, {17, DType::kU16},
    {19, DType::kF16}, {22, DType::kU32}, {23, DType::kU64}};

// A table in LevelDB's format.
class LevelDbTable {
 public:
  LevelDbTable(std::string_view file, const MessageOrigin& origin, Crcs crcs)
      : file_(file), origin_(origin), crcs_(crcs) {}

  using Visit = std::function<void(std::string_view key, std::string_view value)>;

  // Every key and value, in order.
  void each(const Visit& visit) const {
    constexpr size_t kFooter = 48;
    constexpr uint64_t kMagic = 0xDB4775248B80FB57;
    uint64_t magic = 0;
    if (file_.size() >= kFooter)
      std::memcpy(&magic, file_.data() + file_.size() - sizeof magic, sizeof magic);
    if (magic != kMagic) origin_.damaged("its last bytes are not a table's");
    std::string_view footer = file_.substr(file_.size() - kFooter);
    block(take_place(footer));  // the table's metadata, which is empty
    uint64_t last_end = 0;
    std::optional<std::string> last_key;
    each_in_block(block(take_place(footer)), [&](std::string_view, std::string_view handle) {
      const Place place = take_place(handle);
      if (place.offset < last_end) origin_.damaged("its blocks overlap");
      last_end = place.offset + place.size;
      each_in_block(block(place), [&](std::string_view key, std::string_view value) {
        if (last_key && key <= *last_key) origin_.damaged("its names are not in order");
        last_key = key;
        visit(key, value);
      });
    });
  }

 private:
  struct Place {
    uint64_t offset, size;
  };
  static constexpr size_t kTrailer = 5;  // behind a block: the kind of compression, and a CRC

  uint64_t varint(std::string_view& bytes) const { return MessageFields::varint(bytes, origin_); }

  // Takes the place of a block off the front of `bytes`.
  Place take_place(std::string_view& bytes) const {
    const uint64_t offset = varint(bytes), size = varint(bytes);
    if (Checked(offset) + size + kTrailer > Checked(file_.size()))
      origin_.damaged("a block reaches beyond the file");
    return {offset, size};
  }
  Place take_place(std::string_view&& bytes) const { return take_place(bytes); }

  std::string_view block(Place place) const {
    const std::string_view with_kind = file_.substr(place.offset, place.size + 1);
    uint32_t crc;
    std::memcpy(&crc, with_kind.data() + with_kind.size(), sizeof crc);
    if (crcs_ == Crcs::kCheck && crc != masked_crc32c(crc32c(with_kind)))
      origin_.damaged("the CRC of a block is wrong");
    if (with_kind.back() != 0)
      throw Error(fmt::format("{} is compressed, which TensorFlow itself never does", origin_.name),
                  "save the checkpoint again with TensorFlow");
    return with_kind.substr(0, place.size);
  }

  // Keys and values; then where some of the keys are, for those who look one up, and how many these are.
  void each_in_block(std::string_view block, const Visit& visit) const {
    uint32_t restarts = 0;
    if (block.size() < sizeof restarts) origin_.damaged("a block is too short");
    std::memcpy(&restarts, block.data() + block.size() - sizeof restarts, sizeof restarts);
    const Checked tail = (Checked(restarts) + 1) * sizeof restarts;
    if (tail > Checked(block.size())) origin_.damaged("a block is too short");
    block.remove_suffix(tail.value());
    std::string key;
    while (!block.empty()) {
      const uint64_t shared = varint(block), own = varint(block), size = varint(block);
      if (shared > key.size() || Checked(own) + size > Checked(block.size()))
        origin_.damaged("a name reaches beyond its block");
      if (Checked(shared) + own > Checked(kMaxTensorName)) origin_.damaged("a name is too long");
      key.resize(shared);
      key += block.substr(0, own);
      visit(key, block.substr(own, size));
      block.remove_prefix(own + size);
    }
  }

  std::string_view file_;
  const MessageOrigin& origin_;
  Crcs crcs_;
};

// What the index says of a tensor.
struct IndexEntry {
  uint64_t type = 0, shard = 0, offset = 0, size = 0;
  uint32_t crc = 0;
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
        e.crc = field.fixed32();
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
  CheckpointReader(const ModelFiles& files, std::string_view index, Crcs crcs)
      : files_(files),
        prefix_(index.substr(0, index.size() - kIndexEnding.size())),
        origin_{files.name_of(index), "the index of a TensorFlow checkpoint"},
        crcs_(crcs) {}

  TensorFlowTensors read(std::string_view index) {
    out_.files.push_back(files_.read(index));
    bool has_header = false;
    const auto visit = [&](std::string_view name, std::string_view value) {
      if (name.empty()) {
        has_header = true;
        return read_header(value);
      }
      if (!has_header) origin_.damaged("it has no header");
      add(name, entry_of(value, origin_));
    };
    LevelDbTable(out_.files[0].text(), origin_, crcs_).each(visit);
    if (!has_header) origin_.damaged("it is empty");
    std::ranges::sort(out_.tensors, {}, &TensorInfo::name);
    const auto twice = std::ranges::adjacent_find(out_.tensors, {}, &TensorInfo::name);
    if (twice != out_.tensors.end()) fail(twice->name, "is there twice");
    return std::move(out_);
  }

 private:
  struct DataFile {
    std::string_view bytes;
    uint64_t used = 0;  // by tensors so far
  };

  [[noreturn]] void fail(std::string_view tensor, std::string_view problem,
                         std::string_view hint = "make or download it again") const {
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
      origin_.damaged(fmt::format("its numbers are said to be in {} files", shards_));
  }

  DataFile& data_file(uint64_t number, std::string_view tensor) {
    if (number >= shards_) fail(tensor, fmt::format("is in file {} of {}", number + 1, shards_));
    const auto [at, is_new] = opened_.try_emplace(number);
    if (is_new) {
      out_.files.push_back(files_.read(fmt::format("{}.data-{:05}-of-{:05}", prefix_, number, shards_)));
      at->second.bytes = out_.files.back().text();
    }
    return at->second;
  }

  void add(std::string_view name, const IndexEntry& e) {
    const auto type = std::ranges::find(kTensorFlowTypes, e.type, &std::pair<uint64_t, DType>::first);
    if (type == std::end(kTensorFlowTypes)) return;  // text, or what only TensorFlow knows
    if (!is_plain_name(name)) origin_.damaged("a tensor's name is not plain ASCII");
    if (e.in_slices) fail(name, "is stored in slices", "save it with TensorFlow as one variable");
    if (out_.tensors.size() == kMaxTensors)
      throw Error(fmt::format("{}: more than {} tensors", origin_.name, kMaxTensors));
    if (const size_t bytes = bytes_of(type->second, e.shape, origin_.name, name); bytes != e.size)
      fail(name, fmt::format("has {} bytes where its shape needs {}", e.size, bytes));
    DataFile& file = data_file(e.shard, name);
    if (Checked(e.offset) + e.size > Checked(file.bytes.size())) fail(name, "reaches beyond its file");
    file.used += e.size;
    if (file.used > file.bytes.size()) fail(name, "overlaps another one");
    const std::string_view numbers = file.bytes.substr(e.offset, e.size);
    if (crcs_ == Crcs::kCheck && e.crc != masked_crc32c(crc32c(numbers)))
      fail(name, "is damaged: its CRC is wrong");
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
  Crcs crcs_;
  uint64_t shards_ = 1;
  std::map<uint64_t, DataFile> opened_;
  TensorFlowTensors out_;
};

}  // namespace

bool is_tensorflow_index(std::string_view file) { return file.ends_with(kIndexEnding); }

TensorFlowTensors tensorflow_tensors(const ModelFiles& files, std::string_view index, Crcs crcs) {
  return CheckpointReader(files, index, crcs).read(index);
}

}  // namespace bertie::io
