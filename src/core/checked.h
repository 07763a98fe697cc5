#pragma once
// Sizes that come from a file or a socket: arithmetic that throws instead of wrapping.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bertie/error.h"

namespace bertie {

class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }

  friend Checked operator+(Checked a, Checked b) {
    uint64_t r;
    if (__builtin_add_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }
  friend Checked operator-(Checked a, Checked b) {
    uint64_t r;
    if (__builtin_sub_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }
  friend Checked operator*(Checked a, Checked b) {
    uint64_t r;
    if (__builtin_mul_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }
  friend constexpr auto operator<=>(Checked a, Checked b) = default;

 private:
  [[noreturn]] static void overflow() { throw Error("a size in the input does not fit into 64 bits"); }
  uint64_t value_;
};

// Reads the whole of `text` as a number. False, and `value` stays, where it is none of type T.
template <class T>
bool parse_number(std::string_view text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace bertie
