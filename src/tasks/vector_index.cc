#include "bertie/vector_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "bertie/error.h"
#include "bertie/files.h"
#include "core/parallel.h"
#include "io/file.h"
#include "io/growing_file.h"
#include "io/half.h"
#include "io/json.h"
#include "kernels/dot_rows.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr const char *kIndex = "index.json", *kBegun = "begun.journal", *kVectors = "vectors.npy",
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

// The same, and what else tells the work from another.
std::string described_work(const VectorIndexOptions& o) {
  nlohmann::ordered_json work = described(o);
  if (!o.work.empty()) work.update(io::parse_json(o.work, "work"));
  return io::dump(work);
}

}  // namespace

struct VectorIndexWriter::State {
  State(const fs::path& path, const VectorIndexOptions& o)
      : folder(path),
        options(o),
        journal(path / kBegun, described_work(o)),  // before all else: what has it can be gone on with
        vectors(path / kVectors),
        ends(path / kEnds),
        texts(path / kTexts) {
    if (o.numbers == VectorNumbers::kInt8) scales = std::make_unique<io::GrowingFile>(path / kScales);
    while (!journal.marks().empty() && !have(journal.marks().back())) journal.drop_last();
    if (!journal.marks().empty()) done = journal.marks().back();
    count = done.inputs, end = done.bytes;
    write_headers();
    vectors.cut(kHeader + count * row_bytes()), ends.cut(kHeader + count * sizeof(uint64_t)), texts.cut(end);
    if (scales) scales->cut(kHeader + count * sizeof(float));
  }

  fs::path folder;
  VectorIndexOptions options;
  Journal journal;
  io::GrowingFile vectors, ends, texts;
  std::unique_ptr<io::GrowingFile> scales;
  Mark done;  // before
  size_t count = 0;
  uint64_t end = 0;  // of the last text
  std::vector<float> scratch;
  std::vector<std::byte> packed;
  bool committed = false;

  size_t row_bytes() const { return options.dimension * bytes_of(options.numbers); }
  // Whether the files are as long as that.
  bool have(const Mark& mark) {
    return vectors.size() >= kHeader + mark.inputs * row_bytes() &&
           ends.size() >= kHeader + mark.inputs * sizeof(uint64_t) && texts.size() >= mark.bytes &&
           (!scales || scales->size() >= kHeader + mark.inputs * sizeof(float));
  }
  void write_headers() {
    vectors.put_at_front(npy_header(npy_type(options.numbers), count, options.dimension));
    ends.put_at_front(npy_header("<u8", count, 0));
    if (scales) scales->put_at_front(npy_header("<f4", count, 0));
  }
  void flush() {
    texts.flush(), ends.flush(), vectors.flush();
    if (scales) scales->flush();
  }
};

VectorIndexWriter::VectorIndexWriter(const fs::path& folder, const VectorIndexOptions& options, bool resume) {
  if (options.dimension == 0) throw Error("an index needs vectors of at least one number", {}, "dimension");
  if (fs::exists(folder / kIndex))
    throw Error(fmt::format("{} is an index already", folder.string()), "another folder");
  const bool begun = fs::exists(folder / kBegun);
  if (begun && !resume)
    throw Error(fmt::format("an index was begun in {}", folder.string()),
                "`resume` to go on with it, or another folder", "resume");
  if (!begun) {
    fs::create_directories(folder);
    if (!fs::is_empty(folder)) throw Error(fmt::format("{} is not empty", folder.string()), "another folder");
  }
  state_ = std::make_unique<State>(folder, options);
}

VectorIndexWriter::~VectorIndexWriter() = default;
size_t VectorIndexWriter::size() const { return state_->count; }
const Mark& VectorIndexWriter::done() const { return state_->done; }

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

void VectorIndexWriter::mark(const Mark& mark) {
  State& s = *state_;
  s.flush();
  Mark with_place = mark;
  with_place.inputs = s.count, with_place.bytes = s.end;
  s.journal.add(with_place);
}

void VectorIndexWriter::commit() {
  State& s = *state_;
  s.flush();
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
