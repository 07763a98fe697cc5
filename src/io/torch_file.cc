#include "io/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/json.h"
#include "io/pickle.h"
#include "io/zip.h"

namespace bertie::io {
namespace {

using Kind = PickleValue::Kind;

constexpr std::pair<std::string_view, DType> kStorages[] = {
    {"FloatStorage", DType::kF32},  {"HalfStorage", DType::kF16}, {"BFloat16Storage", DType::kBF16},
    {"DoubleStorage", DType::kF64}, {"LongStorage", DType::kI64}, {"IntStorage", DType::kI32},
    {"ShortStorage", DType::kI16},  {"CharStorage", DType::kI8},  {"ByteStorage", DType::kU8},
    {"BoolStorage", DType::kBool}};

struct Storage {
  std::string key;
  DType dtype{};
  uint64_t elements = 0;
};

struct Tensor {
  std::string name;
  Storage storage;
  uint64_t offset = 0;  // in elements, like strides
  std::vector<size_t> shape, strides;
};

class Reader {
 public:
  Reader(const std::string& name, size_t file_bytes) : name_(name), room_(4 * Checked(file_bytes)) {}

  // Copies may take a few times the file's bytes. Many views of one storage would take any number.
  void take_room(Checked bytes) {
    if (bytes > room_)
      fail("its tensors are views of each other that would fill memory", "save it with .contiguous()");
    room_ = room_ - bytes;
  }

  [[noreturn]] void fail(const std::string& problem,
                         const std::string& hint = "save it again with torch.save") const {
    throw Error(fmt::format("{}: {}", name_, problem), hint);
  }

  // The tensors of a state dict, or of the one inside a training checkpoint.
  std::vector<Tensor> tensors(const PickleValue& top) const {
    if (!top.is(Kind::kDict)) fail("it holds no dict of tensors", "torch.save(model.state_dict(), …)");
    std::vector<Tensor> found = of_dict(top);
    for (size_t i = 0; found.empty() && i + 1 < top.items->size(); i += 2) {
      const PickleValue &key = (*top.items)[i], &value = (*top.items)[i + 1];
      if (key.is(Kind::kText) && (key.text == "state_dict" || key.text == "model") && value.is(Kind::kDict))
        found = of_dict(value);
    }
    if (found.empty()) fail("it holds no tensors", "torch.save(model.state_dict(), …)");
    std::sort(found.begin(), found.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
    for (size_t i = 1; i < found.size(); ++i)
      if (found[i].name == found[i - 1].name)
        fail(fmt::format("two tensors are called {}", quote(found[i].name)));
    return found;
  }

  // A tensor's numbers, in row-major order: in place where they lie so.
  TensorInfo placed(const Tensor& t, std::span<const std::byte> storage,
                    std::vector<std::vector<std::byte>>& copies) {
    const size_t size = size_of(t.storage.dtype);
    Checked elements = 1, last = t.offset;  // the farthest element
    bool in_order = true;
    size_t expected = 1;
    for (size_t d = t.shape.size(); d-- > 0;) {
      elements = elements * t.shape[d];
      if (t.shape[d] > 1) last = last + Checked(t.shape[d] - 1) * t.strides[d];
      in_order &= t.shape[d] <= 1 || t.strides[d] == expected;
      expected *= t.shape[d];
    }
    const size_t n = elements.value();
    if (Checked(t.storage.elements) * size > Checked(storage.size()) ||
        (n > 0 && last >= Checked(t.storage.elements)))
      fail(fmt::format("tensor {} reaches beyond its storage", quote(t.name)), "make or download it again");
    TensorInfo info{.name = t.name, .dtype = t.storage.dtype, .shape = t.shape, .data = {}};
    if (n == 0) return info;
    if (in_order) {
      info.data = storage.subspan(t.offset * size, n * size);
      return info;
    }
    if (n > t.storage.elements)  // as expand() does
      fail(fmt::format("tensor {} repeats its numbers", quote(t.name)), "save it with .contiguous()");
    take_room(elements * size);
    std::vector<std::byte>& copy = copies.emplace_back(n * size);
    std::vector<size_t> at(t.shape.size());
    for (size_t i = 0; i < n; ++i) {
      uint64_t from = t.offset;
      for (size_t d = 0; d < at.size(); ++d) from += at[d] * t.strides[d];
      std::memcpy(&copy[i * size], &storage[from * size], size);
      for (size_t d = at.size(); d-- > 0 && ++at[d] == t.shape[d];) at[d] = 0;
    }
    info.data = copy;
    return info;
  }

 private:
  std::vector<Tensor> of_dict(const PickleValue& dict) const {
    std::vector<Tensor> found;
    for (size_t i = 0; i + 1 < dict.items->size(); i += 2) {
      const PickleValue& key = (*dict.items)[i];
      if (!key.is(Kind::kText)) continue;
      if (std::optional<Tensor> t = tensor((*dict.items)[i + 1])) {
        t->name = std::string(key.text);
        if (t->name.size() > kMaxTensorName) fail("a tensor's name is too long");
        if (found.size() == kMaxTensors) fail(fmt::format("more than {} tensors", kMaxTensors));
        found.push_back(std::move(*t));
      }
    }
    return found;
  }

  // What a call makes, where that is a tensor; what is no call is none.
  std::optional<Tensor> tensor(const PickleValue& value) const {
    if (!value.is(Kind::kCall)) return {};
    const PickleValue& what = (*value.items)[0];
    const PickleValue::Items& given = *(*value.items)[1].items;
    if (what.is_global("torch._utils", "_rebuild_parameter") && !given.empty()) return tensor_once(given[0]);
    return tensor_once(value);
  }

  std::optional<Tensor> tensor_once(const PickleValue& value) const {
    if (!value.is(Kind::kCall)) fail("a parameter of something that is no tensor");
    const PickleValue& what = (*value.items)[0];
    const PickleValue::Items& given = *(*value.items)[1].items;
    if (!what.is_global("torch._utils", "_rebuild_tensor_v2") &&
        !what.is_global("torch._utils", "_rebuild_tensor"))
      fail(what.is(Kind::kGlobal) ? fmt::format("it asks for {}, which is never called",
                                                quote(fmt::format("{}.{}", what.text, what.name)))
                                  : "it calls something that has no name",
           "torch.save(model.state_dict(), …) of plain tensors");
    if (given.size() < 4 || !given[1].is(Kind::kInt) || given[1].number < 0)
      fail("a tensor without its place");
    Tensor t{.name = {},
             .storage = storage(given[0]),
             .offset = uint64_t(given[1].number),
             .shape = sizes(given[2]),
             .strides = sizes(given[3])};
    if (t.shape.size() != t.strides.size()) fail("a tensor with another number of strides than sizes");
    return t;
  }

  std::vector<size_t> sizes(const PickleValue& value) const {
    if (!value.is(Kind::kTuple) || value.items->size() > kMaxRank) fail("a tensor whose sizes make no sense");
    std::vector<size_t> all;
    for (const PickleValue& one : *value.items) {
      if (!one.is(Kind::kInt) || one.number < 0) fail("a tensor whose sizes make no sense");
      all.push_back(size_t(one.number));
    }
    return all;
  }

  // ("storage", torch.FloatStorage, "0", "cpu", 6), and in older files a view or None
  Storage storage(const PickleValue& value) const {
    const auto odd = [&] { fail("a tensor whose storage makes no sense"); };
    if (!value.is(Kind::kPersistent) || !(*value.items)[0].is(Kind::kTuple)) odd();
    const PickleValue::Items& id = *(*value.items)[0].items;
    if (id.size() < 5 || !id[0].is(Kind::kText) || id[0].text != "storage" || !id[1].is(Kind::kGlobal) ||
        !id[2].is(Kind::kText) || !id[4].is(Kind::kInt) || id[4].number < 0)
      odd();
    if (id.size() > 5 && !id[5].is(Kind::kNone))
      fail("a storage that is a view of another", "save it again with a newer PyTorch");
    for (const auto& [name, dtype] : kStorages)
      if (id[1].is_global("torch", name)) return {std::string(id[2].text), dtype, uint64_t(id[4].number)};
    fail(fmt::format("numbers of the kind {}", quote(fmt::format("{}.{}", id[1].text, id[1].name))),
         "numbers of 16 or 32 bits");
  }

  const std::string& name_;
  Checked room_;
};

// NAME/data.pkl, NAME/data/KEY for each storage, NAME/byteorder.
TorchTensors from_zip(std::span<const std::byte> file, const std::string& name) {
  Reader reader(name, file.size());
  std::map<std::string, ZipEntry> entries;
  std::string root;
  for (const ZipEntry& entry : zip_entries(file, name)) {
    if (entry.name.ends_with("/data.pkl")) root = entry.name.substr(0, entry.name.size() - 8);
    entries[entry.name] = entry;
  }
  if (root.empty()) reader.fail("a zip archive without data.pkl, which torch.save would have written");
  TorchTensors out;
  const auto bytes_of = [&](const std::string& entry) {
    const auto found = entries.find(root + entry);
    if (found == entries.end())
      reader.fail(fmt::format("{} is missing", quote(entry)), "make or download it again");
    if (found->second.deflated) reader.take_room(found->second.bytes);
    std::vector<std::byte> room;
    const std::span<const std::byte> bytes = unzip(found->second, room, name);
    if (room.empty()) return bytes;
    return std::span<const std::byte>(out.copies.emplace_back(std::move(room)));
  };
  if (entries.contains(root + "byteorder")) {
    const std::span<const std::byte> order = bytes_of("byteorder");
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little")
      reader.fail("its numbers are big-endian", "save it on an ordinary machine");
  }
  PickleReader pickle(bytes_of("data.pkl"), name);
  std::map<std::string, std::span<const std::byte>> storages;
  for (const Tensor& t : reader.tensors(pickle.read())) {
    auto storage = storages.find(t.storage.key);
    if (storage == storages.end())
      storage = storages.emplace(t.storage.key, bytes_of("data/" + t.storage.key)).first;
    out.tensors.push_back(reader.placed(t, storage->second, out.copies));
  }
  return out;
}

// Before PyTorch 1.6: pickles of a magic number, a version, the machine, the tensors, the storages' keys;
// then each storage's count of elements, and the elements.
TorchTensors from_pickles(std::span<const std::byte> file, const std::string& name) {
  Reader reader(name, file.size());
  constexpr auto kMagic = int64_t(0xa86a20f9469cfc6c);  // the lowest 64 bits of 0x1950a86a20f9469cfc6c
  const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 64));
  if (text.starts_with("version https://git-lfs"))
    reader.fail("a pointer file of git-lfs, and not the file itself", "git lfs pull, or download it again");
  PickleReader pickle(file, name);
  if (const PickleValue magic = pickle.read(); !magic.is(Kind::kInt) || magic.number != kMagic)
    reader.fail("not a file of torch.save: its magic number is missing");
  const PickleValue version = pickle.read();
  if (!version.is(Kind::kInt) || version.number != 1001)
    reader.fail("of a version of PyTorch that is not known");
  const PickleValue machine = pickle.read();
  if (machine.is(Kind::kDict))
    for (size_t i = 0; i + 1 < machine.items->size(); i += 2)
      if ((*machine.items)[i].is(Kind::kText) && (*machine.items)[i].text == "little_endian" &&
          (*machine.items)[i + 1].number == 0)
        reader.fail("its numbers are big-endian", "save it on an ordinary machine");
  const std::vector<Tensor> tensors = reader.tensors(pickle.read());
  const PickleValue keys = pickle.read();
  if (!keys.is(Kind::kList)) reader.fail("the list of its storages is missing");
  std::map<std::string, const Storage*> known;
  for (const Tensor& t : tensors) known[t.storage.key] = &t.storage;
  std::map<std::string, std::span<const std::byte>> storages;
  size_t at = pickle.position();
  for (const PickleValue& key : *keys.items) {
    const auto storage = key.is(Kind::kText) ? known.find(std::string(key.text)) : known.end();
    if (storage == known.end())
      reader.fail("a storage that no tensor uses", "save it again with a newer PyTorch");
    uint64_t elements = 0;
    if (file.size() - at < sizeof elements)
      reader.fail("truncated: a storage is missing", "make or download it again");
    std::memcpy(&elements, file.data() + at, sizeof elements);
    at += sizeof elements;
    const Checked bytes = Checked(elements) * size_of(storage->second->dtype);
    if (bytes > Checked(file.size() - at))
      reader.fail("truncated: a storage ends after the file", "make or download it again");
    storages[storage->first] = file.subspan(at, bytes.value());
    at += bytes.value();
  }
  TorchTensors out;
  for (const Tensor& t : tensors) {
    const auto storage = storages.find(t.storage.key);
    if (storage == storages.end()) reader.fail(fmt::format("the storage of {} is missing", quote(t.name)));
    out.tensors.push_back(reader.placed(t, storage->second, out.copies));
  }
  return out;
}

}  // namespace

bool is_torch_file(std::string_view file) {
  return file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".pth");
}

TorchTensors torch_tensors(std::span<const std::byte> file, const std::string& name) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 4));
  return start == "PK\x03\x04" ? from_zip(file, name) : from_pickles(file, name);
}

}  // namespace bertie::io
