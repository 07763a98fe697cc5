#include "text/models/vocabulary.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/quote.h"

namespace bertie::text {

Vocabulary::Vocabulary(std::string name) : name_(std::move(name)) {}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  tokens_.reserve(std::min(tokens, kMaxTokens));
  text_.reserve(std::min(bytes, kMaxVocabularyBytes) + kPadding);
}

void Vocabulary::add_outside(std::string_view token, uint64_t id) {
  add(token, id);
  text_.append(kPadding, '\0');
  outside_.emplace(token, uint32_t(id));
}

void Vocabulary::add(std::string_view token, uint64_t id) {
  // The largest id is not used: with all tag bits set its slot would equal kNone.
  if (id >= kMaxTokens - 1)
    throw Error(name_ + ": the token " + io::quote(token) + " has id " + std::to_string(id) +
                    ", the largest allowed is " + std::to_string(kMaxTokens - 2),
                "Is this a vocabulary file?");
  if (token.size() > kMaxTokenBytes)
    throw Error(name_ + ": token " + std::to_string(id) + " has " + std::to_string(token.size()) +
                    " bytes, at most " + std::to_string(kMaxTokenBytes) + " are allowed",
                "A vocabulary has one short token per line. Is this a vocabulary file?");
  if (text_.size() + token.size() > kMaxVocabularyBytes) throw Error(name_ + ": the vocabulary is too large");
  // A small file must not take much memory by leaving wide gaps.
  if (id >= tokens_.size() && id > 4 * count_ + 100'000)
    throw Error(name_ + ": the token " + io::quote(token) + " has id " + std::to_string(id) + " after only " +
                std::to_string(count_) + " tokens");
  add_unchecked(token, id);
}

void Vocabulary::add_unchecked(std::string_view token, uint64_t id) {
  if (id >= tokens_.size()) {
    tokens_.resize(id + 1);
  } else if (tokens_[id].begin != kNone) {
    throw Error(name_ + ": id " + std::to_string(id) + " stands for both " + io::quote(this->token(id)) +
                " and " + io::quote(token));
  }
  tokens_[id] = {uint32_t(text_.size()), uint32_t(token.size())};
  text_ += token;
  ++count_;
}

void Vocabulary::seal(std::string_view continuation_prefix) {
  prefix_ = continuation_prefix;
  text_.append(kPadding, '\0');
  keys_.resize(tokens_.size());
  size_t capacity = std::bit_ceil(std::max<size_t>(2 * count_ + 2, 16));
  slots_.assign(capacity, kNone);
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  int prefix_bits = std::clamp(int(std::bit_width(count_)) - 1, 8, 15);
  prefix_shift_ = unsigned(32 - prefix_bits);
  for (auto& lengths : lengths_) lengths.assign(size_t{1} << prefix_bits, 0);
  for (uint32_t id = 0; id < tokens_.size(); ++id)
    if (tokens_[id].begin != kNone) insert(id);
}

void Vocabulary::insert(uint32_t id) {
  Token t = tokens_[id];
  bool continues = is_continuation(std::string_view(text_.data() + t.begin, t.length));
  size_t n = t.length - (continues ? prefix_.size() : 0);
  if (n == 0) return;
  const char* p = key_text(t, continues);
  Key key = make_key(p, n, continues);
  if (int32_t other = find_key(key, p, n); other >= 0)
    throw Error(name_ + ": the token " + io::quote(token(id)) + " is there twice, as id " +
                    std::to_string(other) + " and " + std::to_string(id),
                "Give every token one line and one id.");
  keys_[id] = key;
  longest_[continues] = std::max(longest_[continues], n);
  if (n < 4)
    short_lengths_[continues][uint8_t(*p)] |= uint8_t(1 << n);
  else
    lengths_[continues][prefix_slot(p)] |= 1u << std::min<size_t>(n, kLongBit);
  uint64_t h = hash(key, p, n);
  size_t i = h >> shift_;
  while (slots_[i] != kNone) i = (i + 1) & mask_;
  slots_[i] = (uint32_t(h) & ~kIdMask) | id;
}

bool Vocabulary::same_rest(uint32_t id, const char* p, size_t n) const {
  return std::memcmp(key_text(tokens_[id], keys_[id].meta & kContinues) + 16, p + 16, n - 16) == 0;
}

std::string_view Vocabulary::token(size_t id) const {
  if (!has(id)) return {};
  return {text_.data() + tokens_[id].begin, tokens_[id].length};
}

int32_t Vocabulary::id(std::string_view token) const {
  bool continues = is_continuation(token);
  std::string_view key = continues ? token.substr(prefix_.size()) : token;
  if (!key.empty() && key.size() <= longest_[continues]) {
    std::string padded(key);
    padded.append(kPadding, '\0');
    if (int32_t id = find(padded.data(), key.size(), continues); id >= 0) return id;
  }
  const auto outside = outside_.find(std::string(token));
  return outside == outside_.end() ? -1 : int32_t(outside->second);
}

}  // namespace bertie::text
