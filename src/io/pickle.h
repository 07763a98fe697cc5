#pragma once
// Python's pickles, as far as files of tensors need them: read as data, never run.
//
// A pickle is a program for a small machine that builds objects. This one knows numbers, texts, tuples, lists
// and dicts. Names of functions and classes (GLOBAL) are kept as names, and "calling" one (REDUCE) keeps the
// call: its name and arguments. What a call means is for whoever reads the result to say, who knows the few
// names that files of tensors have; there is nothing here that could call anything.
//
// Nothing in the bytes is trusted: what is not well formed, or asks for more than `kMostPickleItems`, is an
// Error that says where. Texts are views of the bytes. Objects may refer to each other in circles, so nobody
// should follow them blindly.
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::io {

inline constexpr size_t kMostPickleItems = 4'000'000;

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kTuple,
    kList,
    kDict,
    kGlobal,
    kCall,
    kPersistent,
    kMark
  };
  using Items = std::vector<PickleValue>;

  Kind kind = Kind::kNone;
  int64_t number = 0;          // kBool, kInt; of larger numbers the lowest 64 bits
  double real = 0;             // kFloat
  std::string_view text = {};  // kText; kGlobal: its module
  std::string_view name = {};  // kGlobal
  // kTuple, kList; kDict: key, value, key, value …; kCall: what is called, then its arguments as a tuple;
  // kPersistent: one, the thing's name
  Items* items = nullptr;

  bool is(Kind k) const { return kind == k; }
  bool is_global(std::string_view module, std::string_view what) const {
    return kind == Kind::kGlobal && text == module && name == what;
  }
};

// Several pickles may lie one after the other: each read() gives the next. Values live as long as the reader.
class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  PickleReader(const PickleReader&) = delete;
  PickleReader& operator=(const PickleReader&) = delete;

  PickleValue read();
  size_t position() const { return at_; }  // behind what was read

 private:
  friend class PickleMachine;
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t at_ = 0, items_ = 0;
  std::deque<PickleValue::Items> lists_;
};

}  // namespace bertie::io
