#include "train/data/pair_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bertie/error.h"
#include "core/random.h"
#include "io/file.h"
#include "io/input_file.h"
#include "io/json.h"

namespace bertie {
namespace {

// Texts of one side, packed.
struct Texts {
  std::vector<int32_t> ids;
  std::vector<size_t> offsets{0};

  std::span<const int32_t> operator[](size_t i) const {
    return std::span(ids).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
};

class Pairs final : public PairSource {
 public:
  Pairs(const std::filesystem::path& file, const Tokenizer& tokenizer, const TransformerConfig& config,
        const PairOptions& options)
      : start_id_(config.start_id), eos_id_(config.eos_id), options_(options) {
    if (eos_id_ < 0) throw Error("a model without eos_token_id cannot learn where a text ends");
    options_.max_length = std::min(options.max_length ? options.max_length : SIZE_MAX, config.positions);
    if (options_.max_length < 2)
      throw Error(fmt::format("{} tokens leave no room for a text", options_.max_length),
                  "a longer `max_length`", "max_length");
    read(file, tokenizer, config.vocabulary);
  }

  size_t sequences() const override { return sources_.offsets.size() - 1; }
  size_t truncated() const override { return truncated_; }
  std::span<const TermSpec> terms() const override { return terms_; }

  void begin_step(size_t count) override {
    step_ = next_;
    next_ += count;
  }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0), into.target_offsets.push_back(0);
    std::vector<int32_t>& wanted = into.terms[0].targets;
    for (uint64_t at = step_ + first; at < step_ + first + count; ++at) {
      const size_t place = at % sequences();
      const size_t pair =
          options_.shuffle ? shuffled(place, sequences(), options_.seed, at / sequences()) : place;
      const auto append = [](std::vector<int32_t>& to, std::span<const int32_t> ids) {
        to.insert(to.end(), ids.begin(), ids.end());
      };
      append(into.ids, sources_[pair]);
      into.ids.push_back(eos_id_);
      into.offsets.push_back(int32_t(into.ids.size()));
      into.target_ids.push_back(start_id_);
      append(into.target_ids, targets_[pair]);
      into.target_offsets.push_back(int32_t(into.target_ids.size()));
      append(wanted, targets_[pair]);
      wanted.push_back(eos_id_);
    }
  }

  std::string cursor() const override { return fmt::format("{}{}", signature(), next_); }

  void seek(const std::string& cursor) override {
    const std::string mine = signature();
    uint64_t at = 0;
    const char* const end = cursor.data() + cursor.size();
    if (!cursor.starts_with(mine) ||
        std::from_chars(cursor.data() + std::min(mine.size(), cursor.size()), end, at).ptr != end ||
        cursor.size() == mine.size())
      throw Error(fmt::format("{} is not a position in these pairs", io::quote(cursor)),
                  "the same pairs, tokenizer and `seed` as the run had", "data");
    next_ = at;
  }

  double epochs() const override { return double(next_) / double(sequences()); }

 private:
  void read(const std::filesystem::path& path, const Tokenizer& tokenizer, size_t vocabulary);
  void append(std::string_view text, const Tokenizer& tokenizer, Texts& to, bool& too_long);
  std::string signature() const { return fmt::format("pairs:{}:{:016x}:", sequences(), hash_); }

  int32_t start_id_, eos_id_;
  PairOptions options_;
  Texts sources_, targets_;
  const std::vector<TermSpec> terms_ = {{"token", Head::kCausalLm}};
  size_t truncated_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325;  // of all tokens and the seed: FNV-1a
  uint64_t step_ = 0, next_ = 0;
  Encoding encoding_;
};

void Pairs::append(std::string_view text, const Tokenizer& tokenizer, Texts& to, bool& too_long) {
  tokenizer.encode_into(text, {.add_special_tokens = false, .special_tokens_in_text = false}, encoding_);
  const size_t most = options_.max_length - 1;
  too_long |= encoding_.ids.size() > most;
  if (encoding_.ids.size() > most) encoding_.ids.resize(most);
  to.ids.insert(to.ids.end(), encoding_.ids.begin(), encoding_.ids.end());
  to.offsets.push_back(to.ids.size());
}

void Pairs::read(const std::filesystem::path& path, const Tokenizer& tokenizer, size_t vocabulary) {
  const io::MappedFile file(path);
  std::string_view rest = io::without_byte_order_mark(file.text());
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    if (tab == line.npos || tab == 0 || tab + 1 == line.size() || line.find('\t', tab + 1) != line.npos)
      throw Error(fmt::format("{}: line {} is not a pair", path.string(), number),
                  "each line has a source, a tab, and a target");
    bool too_long = false;
    append(line.substr(0, tab), tokenizer, sources_, too_long);
    append(line.substr(tab + 1), tokenizer, targets_, too_long);
    truncated_ += too_long;
  }
  if (sequences() == 0)
    throw Error(fmt::format("{}: there are no pairs", path.string()), "a source, a tab and a target a line",
                "data");
  for (const Texts* texts : {&sources_, &targets_}) {
    for (int32_t id : texts->ids) {
      if (size_t(id) >= vocabulary)
        throw Error(fmt::format("{}: the tokenizer gives id {}, but the model knows {} tokens", path.string(),
                                id, vocabulary),
                    "the model's own tokenizer");
      hash_ = (hash_ ^ uint32_t(id)) * 0x100000001B3;
    }
    for (size_t offset : texts->offsets) hash_ = (hash_ ^ offset) * 0x100000001B3;
  }
  hash_ = (hash_ ^ options_.seed ^ options_.shuffle) * 0x100000001B3;
}

}  // namespace

std::unique_ptr<PairSource> make_pair_source(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                             const TransformerConfig& config, const PairOptions& options) {
  return std::make_unique<Pairs>(file, tokenizer, config, options);
}

}  // namespace bertie
