#include "train/data/pretraining_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "bertie/error.h"
#include "io/checksum.h"
#include "io/json.h"
#include "train/data/masking.h"
#include "train/data/pretraining_plan.h"
#include "train/data/shard_folder.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr std::pair<Objective, std::string_view> kNames[] = {{Objective::kMasked, "mlm"},
                                                             {Objective::kMaskedNext, "mlm+nsp"},
                                                             {Objective::kMaskedOrder, "mlm+sop"},
                                                             {Objective::kCausal, "causal"}};

bool has_pairs(Objective objective) {
  return objective == Objective::kMaskedNext || objective == Objective::kMaskedOrder;
}

// The special tokens around texts, as the tokenizer itself puts them: [CLS] a [SEP], or with b and [SEP] too.
struct Frame {
  std::vector<int32_t> before, between, after;
  std::vector<int32_t> before_types, between_types, after_types;
  int32_t a_type = 0, b_type = 0;

  Frame(const Tokenizer& tokenizer, bool pair) {
    const Encoding e = pair ? tokenizer.encode("a", "b") : tokenizer.encode("a");
    for (size_t i = 0, texts = 0; i < e.size(); ++i) {
      if (e.sequences[i] == 0) a_type = e.types[i], texts = 1;
      if (e.sequences[i] == 1) b_type = e.types[i], texts = 2;
      if (e.sequences[i] >= 0) continue;
      auto& ids = texts == 0 ? before : pair && texts == 1 ? between : after;
      auto& types = texts == 0 ? before_types : pair && texts == 1 ? between_types : after_types;
      ids.push_back(e.ids[i]);
      types.push_back(e.types[i]);
    }
  }
  size_t size() const { return before.size() + between.size() + after.size(); }
};

class Source : public PretrainingSource {
 public:
  Source(const fs::path& folder, const Tokenizer& tokenizer, const PretrainingOptions& options)
      : options_(options),
        shards_(open_shards(folder, tokenizer, options.held_out ? Part::kHeldOut : Part::kTrain)),
        verified_(shards_.size()),
        frame_(tokenizer, has_pairs(options.objective)),
        planner_(shards_, plan_options(), options.seed) {
    terms_.push_back({"token", is_causal() ? Head::kCausalLm : Head::kMaskedLm});
    if (has_pairs(options.objective)) terms_.push_back({"label", Head::kNextSentence});
    if (is_causal()) {
      end_ = end_of_text(tokenizer);
      if (end_ < 0)
        throw Error("causal language modeling needs a token that ends documents, and this tokenizer has none",
                    "another tokenizer, or another `objective`", "objective");
    } else {
      masking_.emplace(tokenizer,
                       MaskingOptions{options.mask_rate, options.max_predictions, options.whole_words});
    }
    uint64_t documents = 0;
    identity_ = io::checksum(name_of(options.objective), options.seed);
    for (const Shard& shard : shards_) {
      tokens_ += shard.header().tokens;
      documents += shard.header().documents;
      identity_ = io::chain(identity_, shard.header().header_checksum);
    }
    for (const uint64_t part :
         {uint64_t(options.max_length), uint64_t(options.mask_rate * 1e9), uint64_t(options.max_predictions),
          uint64_t(options.whole_words), uint64_t(options.short_rate * 1e9), options.shuffled_tokens})
      identity_ = io::chain(identity_, part);
    if (options.mask_rate_end) identity_ = io::chain(identity_, uint64_t(*options.mask_rate_end * 1e9));
    if (within() > 0) identity_ = io::chain(identity_, within());
    if (options.objective == Objective::kMaskedNext && documents < 2)
      throw Error("next-sentence prediction needs more than one document",
                  "an empty line ends a document; or `objective` mlm or mlm+sop", "objective");
    start_epoch(0);
  }

  void set_progress(double progress) override {
    if (!masking_ || !options_.mask_rate_end) return;
    masking_->set_rate(options_.mask_rate + progress * (*options_.mask_rate_end - options_.mask_rate));
  }

  void begin_step(size_t count) override {
    step_.clear();
    for (size_t empty = 0; step_.size() < count;) {
      if (!planned_) plan_group();
      const size_t take = std::min(count - step_.size(), plan_.size() - next_);
      for (size_t i = 0; i < take; ++i, ++next_)
        step_.push_back({plan_[next_], mask_epoch(), uint64_t{group_} << 32 | next_});
      if (next_ < plan_.size()) break;
      empty = plan_.empty() ? empty + 1 : 0;
      if (empty > groups_.size())
        throw Error(fmt::format("{} and the other shards hold no text to learn from", shards_[0].name()),
                    "longer documents", "data");
      next_group();
    }
  }

  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (size_t i = first; i < first + count; ++i) {
      Random random = keyed_random(options_.seed, Purpose::kSequence, step_.at(i).epoch, step_[i].place);
      if (is_causal())
        make_causal(step_[i].sequence, into);
      else
        make_masked(step_[i].sequence, random, into);
      into.offsets.push_back(int32_t(into.ids.size()));
    }
  }

  std::span<const TermSpec> terms() const override { return terms_; }

  std::string cursor() const override {
    return fmt::format(R"({{"pretraining": "{:016x}", "epoch": {}, "group": {}, "sequence": {}}})", identity_,
                       epoch_, group_, next_);
  }

  void seek(const std::string& cursor) override {
    const std::string name = "the position in the data";
    const nlohmann::json json = io::parse_json(cursor, name);
    if (io::get_string(json, "pretraining", name) != fmt::format("{:016x}", identity_))
      throw Error(
          "the checkpoint's position is one in other shards or with other settings",
          "the same `data`, `seed`, `objective`, `max_length`, `random_within` and masking as the run had",
          "data");
    const size_t epoch = io::get_size(json, "epoch", name);
    const size_t group = io::get_size(json, "group", name);
    const size_t next = io::get_size(json, "sequence", name, {}, std::numeric_limits<uint32_t>::max());
    start_epoch(epoch);
    if (group >= groups_.size()) throw Error("the position in the data is beyond its end");
    group_ = group;
    if (next > 0) {
      plan_group();
      if (next > plan_.size()) throw Error("the position in the data is beyond its end");
      next_ = next;
    }
  }

  double epochs() const override {
    if (tokens_ == 0) return double(epoch_);
    const double in_group = planned_ && !plan_.empty() ? double(next_) / double(plan_.size()) : 0;
    return double(epoch_) +
           (double(groups_[group_].tokens_before) + in_group * double(groups_[group_].tokens)) /
               double(tokens_);
  }

  uint64_t tokens() const override { return tokens_; }

  double share_without_pairs() const override {
    if (!has_pairs(options_.objective) || tokens_ == 0) return 0;
    uint64_t alone = 0;
    for (const Shard& shard : shards_)
      for (size_t d = 0; d < shard.documents(); ++d) {
        const uint32_t first = shard.first_sentence(d), next = shard.first_sentence(d + 1);
        // Not verified yet: the numbers may be anything.
        if (next == first + 1 && next <= shard.header().sentences)
          alone += shard.first_token(next) - shard.first_token(first);
      }
    return double(std::min(alone, tokens_)) / double(tokens_);
  }

  size_t sequences() override {
    std::vector<PlannedSequence> plan;
    size_t sum = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      verify(shards_of(g));
      planner_.plan(shards_of(g), mask_epoch(), plan);
      sum += plan.size();
    }
    return sum;
  }

 private:
  struct Group {
    size_t begin, end;  // in order_
    uint64_t tokens_before, tokens;
  };
  struct StepSequence {
    PlannedSequence sequence;
    uint64_t epoch, place;
  };

  bool is_causal() const { return options_.objective == Objective::kCausal; }
  size_t within() const { return options_.held_out ? 0 : options_.random_within; }
  // The held-out part is cut and masked the same in every epoch.
  uint64_t mask_epoch() const { return options_.held_out ? 0 : epoch_; }

  PlanOptions plan_options() const {
    const size_t special = is_causal() ? 0 : frame_.size(), least = special + 2;
    if (options_.max_length < least || options_.max_length > size_t{1} << 20)
      throw Error(fmt::format("sequences of {} tokens are not possible here", options_.max_length),
                  fmt::format("`max_length` from {} to {}", least, size_t{1} << 20), "max_length");
    const std::pair<const char*, double> rates[] = {{"mask_rate", options_.mask_rate},
                                                    {"mask_rate_end", options_.mask_rate_end.value_or(0.15)}};
    for (const auto& [field, rate] : rates)
      if (!(rate > 0 && rate <= 1))
        throw Error(fmt::format("`{}` {} is not a share above 0 and at most 1", field, rate),
                    fmt::format("`{}` 0.15", field), field);
    if (!(options_.short_rate >= 0 && options_.short_rate <= 1))
      throw Error(fmt::format("`short_rate` {} is not a share", options_.short_rate), "`short_rate` 0.1",
                  "short_rate");
    return {options_.objective, options_.max_length - special, options_.short_rate, within()};
  }

  void start_epoch(uint64_t epoch) {
    epoch_ = epoch;
    group_ = next_ = 0;
    planned_ = false;
    order_.resize(shards_.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (!options_.held_out) shuffle(order_, keyed_random(options_.seed, Purpose::kShardOrder, epoch, 0));
    groups_.clear();
    uint64_t before = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const uint64_t tokens = shards_[order_[i]].header().tokens;
      if (groups_.empty() || groups_.back().tokens + tokens > options_.shuffled_tokens)
        groups_.push_back({i, i, before, 0});
      groups_.back().end = i + 1;
      groups_.back().tokens += tokens;
      before += tokens;
    }
  }

  void next_group() {
    planned_ = false;
    next_ = 0;
    if (++group_ == groups_.size()) start_epoch(epoch_ + 1);
  }

  std::span<const uint32_t> shards_of(size_t group) const {
    return std::span(order_).subspan(groups_[group].begin, groups_[group].end - groups_[group].begin);
  }

  // A shard's numbers are used only after this; once is enough.
  void verify(std::span<const uint32_t> shards) {
    for (const uint32_t shard : shards) {
      if (verified_[shard]) continue;
      shards_[shard].verify();
      verified_[shard] = true;
    }
  }

  void plan_group() {
    verify(shards_of(group_));
    planner_.plan(shards_of(group_), mask_epoch(), plan_);
    if (!options_.held_out)
      shuffle(plan_, keyed_random(options_.seed, Purpose::kSequenceOrder, epoch_, group_));
    next_ = 0;
    planned_ = true;
  }

  template <class T>
  static void shuffle(std::vector<T>& items, Random random) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(uint32_t(i))]);
  }

  void append(const std::vector<int32_t>& ids, const std::vector<int32_t>& types, BatchStorage& into) const {
    into.ids.insert(into.ids.end(), ids.begin(), ids.end());
    into.types.insert(into.types.end(), types.begin(), types.end());
  }
  void append(const Stretch& text, int32_t type, BatchStorage& into) const {
    const size_t had = into.ids.size();
    into.ids.resize(had + text.count);
    shards_[text.shard].read(text.begin, text.count, into.ids.data() + had);
    into.types.resize(into.ids.size(), type);
  }

  void make_masked(PlannedSequence sequence, Random& random, BatchStorage& into) {
    // A pair that is too long loses tokens one by one: the longer text, at its front or its end at random.
    const size_t room = options_.max_length - frame_.size();
    for (Stretch &a = sequence.a, &b = sequence.b; size_t{a.count} + b.count > room;) {
      Stretch& longer = a.count > b.count ? a : b;
      longer.begin += random.below(2);
      --longer.count;
    }
    const size_t first = into.ids.size();
    append(frame_.before, frame_.before_types, into);
    append(sequence.a, frame_.a_type, into);
    if (has_pairs(options_.objective)) {
      append(frame_.between, frame_.between_types, into);
      append(sequence.b, frame_.b_type, into);
      into.terms[1].targets.push_back(sequence.label);
    }
    append(frame_.after, frame_.after_types, into);
    masking_->apply(std::span(into.ids).subspan(first), int32_t(first), random, into.terms[0].rows,
                    into.terms[0].targets);
  }

  // Position `begin` of the stream is in the last document that starts there or before.
  void make_causal(const PlannedSequence& sequence, BatchStorage& into) {
    const Shard& shard = shards_[sequence.a.shard];
    const auto begin_of = [&](size_t document) {
      return uint64_t{shard.first_token(shard.first_sentence(document))} + document;
    };
    size_t low = 0, high = shard.documents();
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (begin_of(middle) <= sequence.a.begin ? low : high) = middle;
    }
    stream_.clear();
    const size_t wanted = size_t{sequence.a.count} + 1;
    for (uint64_t place = sequence.a.begin; stream_.size() < wanted; ++low) {
      const uint64_t end = begin_of(low + 1) - 1;  // where its end token is
      const size_t count = std::min<size_t>(wanted - stream_.size(), end - place);
      stream_.resize(stream_.size() + count);
      shard.read(place - low, count, stream_.data() + stream_.size() - count);
      place += count;
      if (stream_.size() < wanted) stream_.push_back(end_), ++place;
    }
    into.ids.insert(into.ids.end(), stream_.begin(), stream_.end() - 1);
    into.terms[0].targets.insert(into.terms[0].targets.end(), stream_.begin() + 1, stream_.end());
    into.types.resize(into.ids.size(), 0);
  }

  PretrainingOptions options_;
  std::vector<TermSpec> terms_;
  std::vector<Shard> shards_;
  std::vector<bool> verified_;
  Frame frame_;
  std::optional<Masking> masking_;
  Planner planner_;
  int32_t end_ = -1;
  uint64_t tokens_ = 0, identity_ = 0;

  uint64_t epoch_ = 0;
  std::vector<uint32_t> order_;  // of shards, in this epoch
  std::vector<Group> groups_;
  size_t group_ = 0, next_ = 0;  // the next sequence: plan_[next_] of group_
  bool planned_ = false;         // whether plan_ is that of group_
  std::vector<PlannedSequence> plan_;
  std::vector<StepSequence> step_;
  std::vector<int32_t> stream_;
};

}  // namespace

std::string_view name_of(Objective objective) {
  for (const auto& [which, name] : kNames)
    if (which == objective) return name;
  return "?";
}

Objective objective_of(std::string_view name) {
  for (const auto& [which, its_name] : kNames)
    if (name == its_name) return which;
  throw Error(fmt::format("there is no objective {}", io::quote(name)),
              "`objective` mlm+nsp, mlm, mlm+sop, causal or seq2seq", "objective");
}

std::unique_ptr<PretrainingSource> make_pretraining_source(const fs::path& folder, const Tokenizer& tokenizer,
                                                           const PretrainingOptions& options) {
  return std::make_unique<Source>(folder, tokenizer, options);
}

bool has_held_out(const fs::path& folder) { return read_manifest(folder).held_out.shards > 0; }

}  // namespace bertie
