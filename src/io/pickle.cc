#include "io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "bertie/error.h"
#include "io/json.h"

namespace bertie::io {

using Kind = PickleValue::Kind;

// One program, from its first byte to STOP.
class PickleMachine {
 public:
  explicit PickleMachine(PickleReader& reader) : r_(reader) {}

  PickleValue run() {
    for (;;) {
      const size_t at = r_.at_;
      const auto code = uint8_t(take(1)[0]);
      if (code == '.') {
        PickleValue result = pop();
        if (!stack_.empty()) fail("something is left on the stack at its end");
        return result;
      }
      if (!step(code)) fail(fmt::format("byte {} is {:#04x}, which files of tensors do not have", at, code));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(fmt::format("{}: not a file of tensors, or damaged: {}", r_.name_, problem),
                "save it again with torch.save, or as safetensors");
  }

  std::string_view take(size_t count) {
    if (count > r_.bytes_.size() - r_.at_) fail("it ends too soon");
    const std::string_view part(reinterpret_cast<const char*>(r_.bytes_.data()) + r_.at_, count);
    r_.at_ += count;
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(r_.bytes_.data()) + r_.at_,
                                r_.bytes_.size() - r_.at_);
    const size_t end = rest.find('\n');
    if (end == rest.npos) fail("a name has no end");
    r_.at_ += end + 1;
    return rest.substr(0, end);
  }

  void count(size_t more) {
    if (more > kMostPickleItems - r_.items_) fail(fmt::format("more than {} objects", kMostPickleItems));
    r_.items_ += more;
  }
  void push(PickleValue value) { count(1), stack_.push_back(value); }
  void push(Kind kind) { push(PickleValue{.kind = kind}); }
  void push_int(int64_t n) { push(PickleValue{.kind = Kind::kInt, .number = n}); }
  void push_text(std::string_view text) { push(PickleValue{.kind = Kind::kText, .text = text}); }
  void push_items(Kind kind, PickleValue::Items items) {
    count(items.size());
    push(PickleValue{.kind = kind, .items = &r_.lists_.emplace_back(std::move(items))});
  }
  PickleValue pop() {
    if (stack_.empty() || stack_.back().is(Kind::kMark)) fail("an object is missing");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    if (stack_.empty() || stack_.back().is(Kind::kMark)) fail("an object is missing");
    return stack_.back();
  }
  PickleValue::Items pop_many(size_t n) {
    PickleValue::Items items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    return items;
  }
  PickleValue::Items pop_to_mark() {
    const auto mark =
        std::find_if(stack_.rbegin(), stack_.rend(), [](const PickleValue& v) { return v.is(Kind::kMark); });
    if (mark == stack_.rend()) fail("a mark is missing");
    PickleValue::Items items(mark.base(), stack_.end());
    stack_.resize(size_t(stack_.rend() - mark) - 1);
    return items;
  }
  void append(const PickleValue::Items& more, Kind kind) {
    if (!top().is(kind)) fail("items for something that takes none");
    count(more.size());
    top().items->insert(top().items->end(), more.begin(), more.end());
  }

  void call() {
    const PickleValue arguments = pop(), what = pop();
    if (!arguments.is(Kind::kTuple)) fail("a call without arguments");
    // A dict like any other: OrderedDict(), or, of older files, OrderedDict([[key, value], …]).
    if (what.is_global("collections", "OrderedDict")) {
      PickleValue::Items pairs;
      if (!arguments.items->empty()) {
        if (arguments.items->size() != 1 || !(*arguments.items)[0].items)
          fail("an OrderedDict of something odd");
        for (const PickleValue& pair : *(*arguments.items)[0].items) {
          if (!pair.items || pair.items->size() != 2) fail("an OrderedDict of something odd");
          pairs.insert(pairs.end(), pair.items->begin(), pair.items->end());
        }
      }
      return push_items(Kind::kDict, std::move(pairs));
    }
    push_items(Kind::kCall, {what, arguments});
  }

  void push_long(std::string_view bytes) {  // little-endian, two's complement
    int64_t value = !bytes.empty() && uint8_t(bytes.back()) >= 0x80 ? -1 : 0;
    std::memcpy(&value, bytes.data(), std::min<size_t>(8, bytes.size()));
    push_int(value);
  }
  void get(size_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail(fmt::format("there is no object {}", key));
    push(found->second);
  }
  void put(size_t key) { count(1), memo_[key] = top(); }

  // False: a code that is not known.
  bool step(uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        (void)take(1);
        return true;
      case 0x95:  // FRAME
        (void)take(8);
        return true;
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
        push(PickleValue{.kind = Kind::kBool, .number = 1});
        return true;
      case 0x89:
        push(PickleValue{.kind = Kind::kBool});
        return true;
      case 'J':  // BININT
        push_int(number<int32_t>());
        return true;
      case 'K':
        push_int(number<uint8_t>());
        return true;
      case 'M':
        push_int(number<uint16_t>());
        return true;
      case 0x8a:  // LONG1
        push_long(take(number<uint8_t>()));
        return true;
      case 'G': {  // BINFLOAT, big-endian
        const uint64_t bits = __builtin_bswap64(number<uint64_t>());
        push(PickleValue{.kind = Kind::kFloat, .real = std::bit_cast<double>(bits)});
        return true;
      }
      case 'X':  // BINUNICODE
        push_text(take(number<uint32_t>()));
        return true;
      case 0x8c:  // SHORT_BINUNICODE
        push_text(take(number<uint8_t>()));
        return true;
      case 0x8d:  // BINUNICODE8
        push_text(take(number<uint64_t>()));
        return true;
      case 'U':  // SHORT_BINSTRING
        push_text(take(number<uint8_t>()));
        return true;
      case 'T':  // BINSTRING
        push_text(take(number<uint32_t>()));
        return true;
      case ')':
        push_items(Kind::kTuple, {});
        return true;
      case ']':
        push_items(Kind::kList, {});
        return true;
      case '}':
        push_items(Kind::kDict, {});
        return true;
      case '(':
        push(Kind::kMark);
        return true;
      case 't':
        push_items(Kind::kTuple, pop_to_mark());
        return true;
      case 'l':
        push_items(Kind::kList, pop_to_mark());
        return true;
      case 'd':
        push_items(Kind::kDict, pairs_to_mark());
        return true;
      case 0x85:
        push_items(Kind::kTuple, pop_many(1));
        return true;
      case 0x86:
        push_items(Kind::kTuple, pop_many(2));
        return true;
      case 0x87:
        push_items(Kind::kTuple, pop_many(3));
        return true;
      case 'a': {
        const PickleValue one = pop();
        append({one}, Kind::kList);
        return true;
      }
      case 'e': {
        const auto many = pop_to_mark();
        append(many, Kind::kList);
        return true;
      }
      case 's': {
        const auto pair = pop_many(2);
        append(pair, Kind::kDict);
        return true;
      }
      case 'u': {
        const auto pairs = pairs_to_mark();
        append(pairs, Kind::kDict);
        return true;
      }
      case 'q':
        put(number<uint8_t>());
        return true;
      case 'r':
        put(number<uint32_t>());
        return true;
      case 0x94:  // MEMOIZE
        put(memo_.size());
        return true;
      case 'h':
        get(number<uint8_t>());
        return true;
      case 'j':
        get(number<uint32_t>());
        return true;
      case '0':
        (void)pop();
        return true;
      case 'c': {  // GLOBAL
        const std::string_view module = line(), name = line();
        push(PickleValue{.kind = Kind::kGlobal, .text = module, .name = name});
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue name = pop(), module = pop();
        if (!name.is(Kind::kText) || !module.is(Kind::kText)) fail("a name that is no text");
        push(PickleValue{.kind = Kind::kGlobal, .text = module.text, .name = name.text});
        return true;
      }
      case 'R':
        call();
        return true;
      case 'Q':
        push_items(Kind::kPersistent, pop_many(1));
        return true;
      case 'b':  // BUILD: attributes, of which none matters
        (void)pop(), (void)top();
        return true;
      default:
        return false;
    }
  }
  PickleValue::Items pairs_to_mark() {
    PickleValue::Items items = pop_to_mark();
    if (items.size() % 2 != 0) fail("a key without a value");
    return items;
  }

  PickleReader& r_;
  std::vector<PickleValue> stack_;
  std::map<size_t, PickleValue> memo_;
};

PickleValue PickleReader::read() { return PickleMachine(*this).run(); }

}  // namespace bertie::io
