#include "io/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "bertie/error.h"

namespace bertie::io {
namespace {

constexpr size_t kPackedBytes = size_t{1} << 18;
constexpr uint64_t kMaxUnpackMemory = uint64_t{256} << 20;  // what a hostile file may make us take

constexpr std::string_view kGzipStart = "\x1f\x8b", kZstdStart = "\x28\xb5\x2f\xfd",
                           kXzStart{
                               "\xfd"
                               "7zXZ\0",
                               6};

struct Step {
  size_t used = 0, made = 0;
};

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

bool is_packed(std::string_view bytes) {
  return bytes.starts_with(kGzipStart) || bytes.starts_with(kXzStart) || bytes.starts_with(kZstdStart);
}

// Unpacks what it is given, as far as it goes.
class InputFile::Unpacker {
 public:
  virtual ~Unpacker() = default;
  virtual Step unpack(std::span<const char> in, std::span<char> out, bool last) = 0;
  virtual bool at_end() const = 0;  // whether the data may end here

 protected:
  explicit Unpacker(std::string name) : name_(std::move(name)) {}
  [[noreturn]] void damaged(std::string_view kind, std::string_view why) const {
    throw Error(fmt::format("{} is damaged: its {} data does not unpack ({})", name_, kind, why),
                "get the file again");
  }
  std::string name_;
};

class InputFile::Gzip : public Unpacker {
 public:
  explicit Gzip(const std::string& name) : Unpacker(name) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) damaged("gzip", "zlib does not start");
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Step unpack(std::span<const char> in, std::span<char> out, bool) override {
    if (ended_ && !in.empty()) {  // another member after the last one
      inflateReset(&stream_);
      ended_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = uInt(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = uInt(std::min<size_t>(out.size(), 1u << 30));
    const uInt room = stream_.avail_out;
    const int result = ended_ ? Z_OK : inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      ended_ = true;
    else if (result != Z_OK && result != Z_BUF_ERROR)
      damaged("gzip", stream_.msg ? stream_.msg : "unknown");
    return {in.size() - stream_.avail_in, room - stream_.avail_out};
  }
  bool at_end() const override { return ended_; }

 private:
  z_stream stream_{};
  bool ended_ = false;
};

class InputFile::Xz : public Unpacker {
 public:
  explicit Xz(const std::string& name) : Unpacker(name) {
    if (lzma_stream_decoder(&stream_, kMaxUnpackMemory, LZMA_CONCATENATED) != LZMA_OK)
      damaged("xz", "liblzma does not start");
  }
  ~Xz() override { lzma_end(&stream_); }
  Step unpack(std::span<const char> in, std::span<char> out, bool last) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret result = ended_ ? LZMA_OK : lzma_code(&stream_, last ? LZMA_FINISH : LZMA_RUN);
    if (result == LZMA_STREAM_END)
      ended_ = true;
    else if (result == LZMA_MEMLIMIT_ERROR)
      throw Error(fmt::format("{} needs more than {} MB to unpack", name_, kMaxUnpackMemory >> 20),
                  "unpack it with xz -d first");
    else if (result != LZMA_OK && result != LZMA_BUF_ERROR)
      damaged("xz", fmt::format("liblzma's error {}", int(result)));
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out};
  }
  bool at_end() const override { return ended_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

class InputFile::Zstd : public Unpacker {
 public:
  explicit Zstd(const std::string& name) : Unpacker(name), stream_(ZSTD_createDStream()) {
    if (!stream_) damaged("Zstandard", "libzstd does not start");
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  Step unpack(std::span<const char> in, std::span<char> out, bool) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    if (from.size == 0 && ended_) return {};
    const size_t result = ZSTD_decompressStream(stream_, &to, &from);
    if (ZSTD_isError(result)) damaged("Zstandard", ZSTD_getErrorName(result));
    ended_ = result == 0;
    return {from.pos, to.pos};
  }
  bool at_end() const override { return ended_; }

 private:
  ZSTD_DStream* stream_;
  bool ended_ = false;
};

InputFile::InputFile(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  file_ = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto fail = [&](int error) {
    if (file_ >= 0) close(file_);
    throw Error(fmt::format("cannot read {}: {}", name_, std::generic_category().message(error)),
                error == ENOENT ? "check the path, from the folder you are in" : "");
  };
  if (file_ < 0) fail(errno);
  struct stat status {};
  if (fstat(file_, &status) != 0) fail(errno);
  if (S_ISDIR(status.st_mode)) fail(EISDIR);
  if (S_ISREG(status.st_mode)) size_ = uint64_t(status.st_size);
  try {
    packed_.resize(kPackedBytes);
    while (end_ < 6 && fill()) {
    }
    const std::string_view start(packed_.data(), end_);
    if (start.starts_with(kGzipStart)) unpacker_ = std::make_unique<Gzip>(name_);
    if (start.starts_with(kXzStart)) unpacker_ = std::make_unique<Xz>(name_);
    if (start.starts_with(kZstdStart)) unpacker_ = std::make_unique<Zstd>(name_);
  } catch (...) {
    close(file_);
    throw;
  }
}

InputFile::~InputFile() { close(file_); }

size_t InputFile::read_raw(std::span<char> out) {
  ssize_t count;
  do count = ::read(file_, out.data(), out.size());
  while (count < 0 && errno == EINTR);
  if (count < 0)
    throw Error(fmt::format("cannot read {}: {}", name_, std::generic_category().message(errno)));
  taken_ += uint64_t(count);
  return size_t(count);
}

bool InputFile::fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  const size_t count = read_raw(std::span(packed_).subspan(end_));
  end_ += count;
  return count > 0;
}

size_t InputFile::read(std::span<char> out) {
  if (!std::exchange(started_, true)) {
    for (size_t count = 1; count > 0 && start_end_ < start_.size(); start_end_ += count)
      count = read_unpacked(std::span(start_).subspan(start_end_));
    start_end_ = without_byte_order_mark({start_.data(), start_end_}).size();
  }
  if (start_begin_ == start_end_) return read_unpacked(out);
  const size_t count = std::min(start_end_ - start_begin_, out.size());
  std::memcpy(out.data(), start_.data() + start_begin_, count);
  start_begin_ += count;
  return count;
}

size_t InputFile::read_unpacked(std::span<char> out) {
  if (!unpacker_) {
    const size_t had = std::min(end_ - begin_, out.size());
    std::memcpy(out.data(), packed_.data() + begin_, had);
    begin_ += had;
    return had > 0 ? had : read_raw(out);
  }
  for (bool more = true; !out.empty();) {
    if (begin_ == end_ && more) more = fill();
    const Step step = unpacker_->unpack(std::span(packed_).subspan(begin_, end_ - begin_), out, !more);
    begin_ += step.used;
    if (step.made > 0) return step.made;
    if (step.used == 0 && begin_ == end_ && !more) {
      if (!unpacker_->at_end())
        throw Error(fmt::format("{} ends in the middle of its packed data", name_), "get the file again");
      return 0;
    }
    // Trailing bytes that are no packed data would go round for ever.
    if (step.used == 0 && begin_ < end_ && unpacker_->at_end())
      throw Error(fmt::format("{} is damaged: there is something after its packed data", name_),
                  "get the file again");
  }
  return 0;
}

}  // namespace bertie::io
