#include "bertie/vector_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include "bertie/error.h"
#include "bertie/files.h"
#include "core/parallel.h"
#include "io/file.h"
#include "io/half.h"
#include "io/json.h"
#include "kernels/dot_rows.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr const char *kIndex = "index.json", *kBegun = "begun.json", *kVectors = "vectors.npy",
                     *kScales = "scales.npy", *kEnds = "ends.npy", *kTexts = "texts";
constexpr size_t kHeader = 128;  // bytes of an .npy header, its spaces included
constexpr int kVersion = 1;

const char* name_of(VectorNumbers numbers) { return numbers == VectorNumbers::kInt8 ? "int8" : "float16"; }
size_t bytes_of(VectorNumbers numbers) { return numbers == VectorNumbers::kInt8 ? 1 : 2; }
const char* npy_type(VectorNumbers numbers) { return numbers == VectorNumbers::kInt8 ? "|i1" : "<f2"; }

std::string npy_header(const char* type, size_t rows, size_t columns) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},{}), }}", type, rows,
                                 columns ? fmt::format(" {}", columns) : "");
  text.resize(kHeader - 10 - 1, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + char(kHeader - 10) + '\0' + text + '\n';
}

// A file that grows at its end.
class Growing {
 public:
  // What is there already is gone on with.
  explicit Growing(const fs::path& path) : path_(path) {
    file_ = std::fopen(path.c_str(), fs::exists(path) ? "r+b" : "w+bx");
    if (!file_) fail();
  }
  ~Growing() {
    if (file_) std::fclose(file_);
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  uint64_t size() const { return fs::file_size(path_); }
  void cut(uint64_t size) {
    fs::resize_file(path_, size);
    to_end();
  }
  void add(const void* bytes, size_t count) {
    if (count > 0 && std::fwrite(bytes, 1, count, file_) != count) fail();
  }
  void put_at_front(const std::string& bytes) {
    if (std::fseek(file_, 0, SEEK_SET) != 0) fail();
    add(bytes.data(), bytes.size());
    flush();
    to_end();
  }
  void flush() {
    if (std::fflush(file_) != 0) fail();
  }

 private:
  void to_end() {
    if (std::fseek(file_, 0, SEEK_END) != 0) fail();
  }
  [[noreturn]] void fail() const {
    throw Error(fmt::format("{}: {}", path_.string(), std::strerror(errno)),
                "a folder that can be written, with room");
  }
  fs::path path_;
  std::FILE* file_ = nullptr;
};

nlohmann::ordered_json described(const VectorIndexOptions& o) {
  return {{"version", kVersion}, {"dimension", o.dimension}, {"numbers", name_of(o.numbers)},
          {"model", o.model},    {"pooling", o.pooling},     {"how", o.how}};
}

// The numbers of a file of `rows` rows; columns 0: of one number each. Error where its header or size is
// another.
template <class Number>
const Number* numbers_of(const io::MappedFile& file, const char* name, const char* type, size_t rows,
                         size_t columns) {
  const size_t wanted = rows * std::max<size_t>(columns, 1) * sizeof(Number);
  if (file.bytes().size() != kHeader + wanted || !file.text().starts_with(npy_header(type, rows, columns)))
    throw Error(fmt::format("{} is not that of this index.json", name), "make the index anew");
  return reinterpret_cast<const Number*>(file.bytes().data() + kHeader);
}

uint64_t end_of_text(const io::MappedFile& ends, size_t i) {
  uint64_t end = 0;
  std::memcpy(&end, ends.bytes().data() + kHeader + i * sizeof end, sizeof end);
  return end;
}

}  // namespace

struct VectorIndexWriter::State {
  State(const fs::path& path, const VectorIndexOptions& o)
      : folder(path), options(o), vectors(path / kVectors), ends(path / kEnds), texts(path / kTexts) {
    if (o.numbers == VectorNumbers::kInt8) scales = std::make_unique<Growing>(path / kScales);
  }

  fs::path folder;
  VectorIndexOptions options;
  Growing vectors, ends, texts;
  std::unique_ptr<Growing> scales;
  size_t count = 0;
  uint64_t end = 0;  // of the last text
  std::vector<float> scratch;
  std::vector<std::byte> packed;

  size_t row_bytes() const { return options.dimension * bytes_of(options.numbers); }
  void write_headers() {
    vectors.put_at_front(npy_header(npy_type(options.numbers), count, options.dimension));
    ends.put_at_front(npy_header("<u8", count, 0));
    if (scales) scales->put_at_front(npy_header("<f4", count, 0));
  }
  // Rows that all files have whole: a process may have ended between two of them. Rows of zeros without a
  // text at their end are taken back: what they stand for is met again.
  void take_up() {
    const auto rows = [](const Growing& file, size_t bytes) {
      return size_t((std::max<uint64_t>(file.size(), kHeader) - kHeader) / bytes);
    };
    count = std::min(rows(vectors, row_bytes()), rows(ends, sizeof(uint64_t)));
    if (scales) count = std::min(count, rows(*scales, sizeof(float)));
    const io::MappedFile all_ends(folder / kEnds), all_vectors(folder / kVectors);
    const auto end_of = [&](size_t i) { return end_of_text(all_ends, i); };
    const auto is_nothing = [&](size_t i) {
      const auto row = all_vectors.bytes().subspan(kHeader + i * row_bytes(), row_bytes());
      return end_of(i) == (i > 0 ? end_of(i - 1) : 0) &&
             std::ranges::all_of(row, [](std::byte b) { return b == std::byte{}; });
    };
    while (count > 0 && (end_of(count - 1) > texts.size() || is_nothing(count - 1))) --count;
    end = count > 0 ? end_of(count - 1) : 0;
    write_headers();
    vectors.cut(kHeader + count * row_bytes()), ends.cut(kHeader + count * sizeof(uint64_t)), texts.cut(end);
    if (scales) scales->cut(kHeader + count * sizeof(float));
    old_ends.emplace(folder / kEnds), old_texts.emplace(folder / kTexts);
  }
  std::optional<io::MappedFile> old_ends, old_texts;  // of an index that is gone on with
  bool committed = false;
};

VectorIndexWriter::VectorIndexWriter(const fs::path& folder, const VectorIndexOptions& options, bool resume) {
  if (options.dimension == 0) throw Error("an index needs vectors of at least one number", {}, "dimension");
  const std::string wanted = io::dump(described(options));
  if (fs::exists(folder / kIndex))
    throw Error(fmt::format("{} is an index already", folder.string()), "another folder");
  const bool begun = fs::exists(folder / kBegun);
  if (begun && !resume)
    throw Error(fmt::format("an index was begun in {}", folder.string()),
                "`resume` to go on with it, or another folder", "resume");
  if (begun && io::MappedFile(folder / kBegun).text() != wanted)
    throw Error(
        fmt::format("the index that was begun in {} is of another model or other settings", folder.string()),
        "the same model and settings, or another folder", "resume");
  if (!begun) {
    fs::create_directories(folder);
    if (!fs::is_empty(folder)) throw Error(fmt::format("{} is not empty", folder.string()), "another folder");
  }
  if (!begun) write_file(folder / kBegun, wanted);  // before all else: what has it can be gone on with
  state_ = std::make_unique<State>(folder, options);
  if (begun)
    state_->take_up();
  else
    state_->write_headers();
}

VectorIndexWriter::~VectorIndexWriter() = default;
size_t VectorIndexWriter::size() const { return state_->count; }

std::string_view VectorIndexWriter::old_text(size_t i) const {
  const State& s = *state_;
  const size_t rows = s.old_ends ? (s.old_ends->bytes().size() - kHeader) / sizeof(uint64_t) : 0;
  if (i >= rows) throw Error(fmt::format("there is no text {} from before", i));
  const uint64_t first = i > 0 ? end_of_text(*s.old_ends, i - 1) : 0, end = end_of_text(*s.old_ends, i);
  const std::string_view all = s.old_texts->text();
  if (first > end || end > all.size())
    throw Error(fmt::format("{} is not what was begun here", s.folder.string()),
                "begin anew in another folder");
  return all.substr(first, end - first);
}

void VectorIndexWriter::add(std::span<const float> vector, std::string_view text) {
  State& s = *state_;
  if (s.committed) throw Error("the index is whole: nothing can be added to it");
  if (vector.size() != s.options.dimension)
    throw Error(
        fmt::format("a vector of {} numbers, where the index has {}", vector.size(), s.options.dimension));
  double squares = 0;
  for (const float x : vector) squares += double(x) * double(x);
  if (!std::isfinite(squares)) throw Error("a vector has NaN or infinity in it");
  const double shrink = squares > 0 ? 1 / std::sqrt(squares) : 0;
  s.scratch.resize(vector.size());
  for (size_t i = 0; i < vector.size(); ++i) s.scratch[i] = float(vector[i] * shrink);
  s.packed.resize(s.row_bytes());
  float scale = 0;
  if (s.options.numbers == VectorNumbers::kFloat16) {
    io::float_to_f16(s.scratch, s.packed.data());
  } else {
    float most = 0;
    for (const float x : s.scratch) most = std::max(most, std::abs(x));
    scale = most / 127;
    for (size_t i = 0; i < vector.size(); ++i)
      s.packed[i] = std::byte(int8_t(most > 0 ? std::lround(s.scratch[i] / scale) : 0));
  }
  s.end += text.size();
  s.texts.add(text.data(), text.size());
  s.ends.add(&s.end, sizeof s.end);
  if (s.scales) s.scales->add(&scale, sizeof scale);
  s.vectors.add(s.packed.data(), s.packed.size());
  ++s.count;
}

void VectorIndexWriter::flush() {
  State& s = *state_;
  s.texts.flush(), s.ends.flush(), s.vectors.flush();
  if (s.scales) s.scales->flush();
}

void VectorIndexWriter::commit() {
  State& s = *state_;
  flush();
  s.write_headers();
  nlohmann::ordered_json index = described(s.options);
  index["count"] = s.count;
  write_file(s.folder / kIndex, io::dump(index));
  fs::remove(s.folder / kBegun);
  s.committed = true;
}

struct VectorIndex::State {
  explicit State(const fs::path& folder)
      : vectors(folder / kVectors), ends(folder / kEnds), texts(folder / kTexts) {}

  size_t count = 0;
  VectorIndexOptions options;
  io::MappedFile vectors, ends, texts;
  std::optional<io::MappedFile> scales;

  const uint64_t* ends_of_texts = nullptr;
};

VectorIndex::VectorIndex(const fs::path& folder) {
  const std::string name = (folder / kIndex).string();
  if (!fs::exists(folder / kIndex))
    throw Error(fmt::format("{} is no index", folder.string()),
                fs::exists(folder / kBegun) ? "one was begun there: `index()` with `resume` goes on with it"
                                            : "`index()` makes one");
  const nlohmann::json index = io::parse_json(io::MappedFile(folder / kIndex).text(), name);
  constexpr size_t kMost = size_t{1} << 40;
  if (io::get_size(index, "version", name, {}, 1000) != kVersion)
    throw Error(fmt::format("{} is of another version", name), "make the index anew");
  state_ = std::make_unique<State>(folder);
  State& s = *state_;
  s.count = io::get_size(index, "count", name, {}, kMost);
  s.options.dimension = io::get_size(index, "dimension", name, {}, size_t{1} << 20);
  const std::string numbers = io::get_string(index, "numbers", name);
  if (s.options.dimension == 0 || (numbers != "float16" && numbers != "int8"))
    throw Error(fmt::format("{}: dimension or numbers make no sense", name), "make the index anew");
  s.options.numbers = numbers == "int8" ? VectorNumbers::kInt8 : VectorNumbers::kFloat16;
  s.options.model = io::get_string(index, "model", name), s.options.how = io::get_string(index, "how", name);
  s.options.pooling = io::get_string(index, "pooling", name);
  const size_t d = s.options.dimension;  // times the count below 2^60
  const char* type = npy_type(s.options.numbers);
  if (s.options.numbers == VectorNumbers::kInt8) {
    s.scales.emplace(folder / kScales);
    (void)numbers_of<int8_t>(s.vectors, kVectors, type, s.count, d);
    (void)numbers_of<float>(*s.scales, kScales, "<f4", s.count, 0);
  } else {
    (void)numbers_of<uint16_t>(s.vectors, kVectors, type, s.count, d);
  }
  s.ends_of_texts = numbers_of<uint64_t>(s.ends, kEnds, "<u8", s.count, 0);
}

VectorIndex::~VectorIndex() = default;
VectorIndex::VectorIndex(VectorIndex&&) noexcept = default;
VectorIndex& VectorIndex::operator=(VectorIndex&&) noexcept = default;
size_t VectorIndex::size() const { return state_->count; }
const VectorIndexOptions& VectorIndex::options() const { return state_->options; }

std::string_view VectorIndex::text(size_t i) const {
  const State& s = *state_;
  if (i >= s.count) throw Error(fmt::format("there is no text {}: the index has {}", i, s.count));
  const uint64_t first = i == 0 ? 0 : s.ends_of_texts[i - 1], end = s.ends_of_texts[i];
  const std::string_view all = s.texts.text();
  if (first > end || end > all.size())
    throw Error("ends.npy is not that of these texts", "make the index anew");
  return all.substr(first, end - first);
}

std::vector<Ranked> VectorIndex::search(std::span<const float> query, size_t top, int threads) const {
  const State& s = *state_;
  if (query.size() != s.options.dimension)
    throw Error(
        fmt::format("a query of {} numbers, where the index has {}", query.size(), s.options.dimension),
        "the model that the index was made with");
  double squares = 0;
  for (const float x : query) squares += double(x) * double(x);
  if (!std::isfinite(squares)) throw Error("the query has NaN or infinity in it");
  std::vector<float> q(query.begin(), query.end());
  if (squares > 0)
    for (float& x : q) x = float(x / std::sqrt(squares));
  top = std::min(top, s.count);
  if (top == 0) return {};

  constexpr size_t kRows = 4096;  // of a chunk; scores of one stay in the L1 cache
  const size_t chunks = (s.count + kRows - 1) / kRows;
  const auto better = [](const Ranked& a, const Ranked& b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
  };
  Team team(threads > 0 ? threads : available_threads());
  std::vector<std::vector<Ranked>> best(
      size_t(team.threads()));  // of each worker, as a heap: the worst in front
  team.parallel_for(chunks, [&](size_t chunk, size_t worker) {
    float scores[kRows];
    const size_t first = chunk * kRows, count = std::min(kRows, s.count - first);
    const std::byte* numbers = s.vectors.bytes().data() + kHeader;
    if (s.options.numbers == VectorNumbers::kInt8) {
      const auto* scales = reinterpret_cast<const float*>(s.scales->bytes().data() + kHeader);
      kernels::dot_rows_i8(reinterpret_cast<const int8_t*>(numbers) + first * s.options.dimension,
                           scales + first, q, {scores, count});
    } else {
      kernels::dot_rows_f16(reinterpret_cast<const uint16_t*>(numbers) + first * s.options.dimension, q,
                            {scores, count});
    }
    std::vector<Ranked>& heap = best[worker];
    for (size_t i = 0; i < count; ++i) {
      // A damaged file may have NaN, which has no place in an order.
      const Ranked one{first + i,
                       std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity() : scores[i]};
      if (heap.size() == top) {
        if (!better(one, heap.front())) continue;
        std::pop_heap(heap.begin(), heap.end(), better);
        heap.pop_back();
      }
      heap.push_back(one);
      std::push_heap(heap.begin(), heap.end(), better);
    }
  });
  std::vector<Ranked> all;
  for (const std::vector<Ranked>& heap : best) all.insert(all.end(), heap.begin(), heap.end());
  std::sort(all.begin(), all.end(), better);
  all.resize(std::min(all.size(), top));
  return all;
}

}  // namespace bertie
