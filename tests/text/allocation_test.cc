// encode_into allocates nothing once its Encoding has grown.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "bertie/tokenizer.h"
#include "support/data.h"
#include "text/generated_text.h"

namespace {
std::atomic<size_t> allocations{0};
}

// Not in line, or the compiler sees malloc where it expects operator new, and warns.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
// All the forms that end in operator delete below: a sanitizer watches that they are of one family.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size ? size : 1);
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace bertie {
namespace {

void expect_no_allocation_after_warm_up(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 500; ++i) texts.push_back(test::generated_text(i));
  Encoding e;
  auto pass = [&] {
    for (size_t i = 0; i + 1 < texts.size(); ++i) {
      tokenizer.encode_into(texts[i], {}, e);
      tokenizer.encode_into(texts[i], {.max_length = 7}, e);
      tokenizer.encode_into(texts[i], texts[i + 1], {.max_length = 20}, e);
    }
  };
  size_t before = allocations;
  pass();
  EXPECT_GT(allocations, before) << "the counter does not count";
  before = allocations;
  pass();
  EXPECT_EQ(allocations, before);
}

TEST(TokenizerAllocation, NoneAfterWarmUp) {
  for (const char* file : {"vocab.txt", "albert", "xlm-roberta"})
    expect_no_allocation_after_warm_up(Tokenizer::load(test::source_dir() / "tests/golden/tokenizer" / file));
}

TEST(TokenizerAllocation, NoneAfterWarmUpWithByteLevelBpe) {
  std::ifstream in(test::source_dir() / "tests/golden/tokenizer/bpe.json");
  nlohmann::json all = nlohmann::json::parse(in);
  for (const char* name :
       {"byte level prefix=False regex=True trim=True", "byte level prefix=True regex=True trim=True",
        "digits, byte level", "no unk, Whitespace"})
    expect_no_allocation_after_warm_up(Tokenizer::from_json_text(all["files"][name].dump()));
}

}  // namespace
}  // namespace bertie
