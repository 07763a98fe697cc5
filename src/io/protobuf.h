#pragma once
// Messages of protocol buffers, field by field: what SentencePiece, TensorFlow and ONNX write. A field is a
// number, a kind, and a varint, 4 or 8 bytes, or bytes of a stated length, which may be a message again.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "bertie/error.h"

namespace bertie::io {

// What the bytes should be, for errors: "spiece.model is not a SentencePiece model, or damaged: …".
struct MessageOrigin {
  std::string name, what, hint = "download it again; a pointer file of git-lfs is fetched with: git lfs pull";

  [[noreturn]] void damaged(std::string_view problem) const {
    throw Error(fmt::format("{} is not {}, or damaged: {}", name, what, problem), hint);
  }
};

// Refers to the bytes and to where they are from.
class MessageFields {
 public:
  MessageFields(std::string_view bytes, const MessageOrigin& origin) : rest_(bytes), origin_(origin) {}

  // Goes to the next field; false at the end. number() and one of value() and bytes() are of the current one.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3, is_number_ = (key & 7) == 0;
    value_ = 0, bytes_ = {};
    switch (key & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        damaged("a field of unknown kind");
    }
    return true;
  }
  uint64_t number() const { return number_; }
  bool is_number() const { return is_number_; }  // has a value(), else bytes()
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  float real() const { return fixed<float>(); }
  uint32_t fixed32() const { return fixed<uint32_t>(); }

  // Takes a varint off the front of `bytes`, as those of a packed list.
  static uint64_t varint(std::string_view& bytes, const MessageOrigin& origin) {
    MessageFields list(bytes, origin);
    const uint64_t value = list.varint();
    bytes = list.rest_;
    return value;
  }

  [[noreturn]] void damaged(std::string_view what) const { origin_.damaged(what); }

 private:
  template <class T>
  T fixed() const {
    if (bytes_.size() != sizeof(T)) damaged("a number of another size");
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) damaged("a length leads out of the file");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = uint8_t(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number does not end");
  }

  std::string_view rest_;
  const MessageOrigin& origin_;
  uint64_t number_ = 0, value_ = 0;
  bool is_number_ = false;
  std::string_view bytes_;
};

}  // namespace bertie::io
