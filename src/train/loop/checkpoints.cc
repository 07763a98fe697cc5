// The trainer's checkpoints: what is in them, and how a run resumes from one.
//
// Rank 0 alone reads and writes; the others get what it read. So a run resumes with any number of ranks, and
// on machines that do not share a disk.
#include <fmt/format.h>

#include <cmath>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors_writer.h"
#include "io/sha.h"
#include "train/data/shard_folder.h"
#include "train/loop/trainer.h"
#include "train/ranks/rank_checks.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr const char *kFirst = "exp_avg", *kSecond = "exp_avg_sq";  // as PyTorch's Adam calls them
constexpr const char* kParameters = "parameters";                   // where model.safetensors has their mean
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr size_t kMostSteps = size_t{1} << 53;

void write_moments(const fs::path& file, Optimizer& optimizer, std::span<const float> parameters) {
  const auto flat = [](const char* name, std::span<const float> values) {
    return io::TensorSource{
        .name = name, .shape = {values.size()}, .read = [values](size_t first, std::span<float> out) {
          std::copy_n(values.data() + first, out.size(), out.data());
        }};
  };
  std::vector<io::TensorSource> tensors = {flat(kFirst, optimizer.first_moments()),
                                           flat(kSecond, optimizer.second_moments())};
  if (!optimizer.mean().empty()) tensors.push_back(flat(kParameters, parameters));
  io::write_safetensors(file, io::DType::kF32, tensors);
}

// `parameters` are those of model.safetensors: the mean, where one was kept.
void read_moments(const fs::path& file, Optimizer& optimizer, std::span<float> parameters) {
  const io::SafeTensors tensors = io::SafeTensors::open(file);
  std::ranges::copy(parameters.first(optimizer.mean().size()), optimizer.mean().begin());
  std::vector<std::pair<const char*, std::span<float>>> all = {{kFirst, optimizer.first_moments()},
                                                               {kSecond, optimizer.second_moments()}};
  if (tensors.find(kParameters)) all.emplace_back(kParameters, parameters);
  for (const auto& [name, to] : all) {
    const io::TensorInfo* found = tensors.find(name);
    if (!found || found->dtype != io::DType::kF32 || found->elements() != to.size())
      throw Error(fmt::format("{} does not hold the {} numbers of {} that this model needs", file.string(),
                              to.size(), name),
                  "the same `size` or `config` as the run had");
    io::to_float(*found, 0, to);
  }
}

std::string in_words(const nlohmann::json& value) {
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

uint64_t best_step_of(const RunFolder::Found& found) {
  const std::string name = (found.folder / "state.json").string();
  const nlohmann::json state = io::parse_json(found.state, name);
  const auto best = state.find("best");
  return best == state.end() ? 0 : io::get_size(*best, "step", name, {}, kMostSteps);
}

}  // namespace

// Names the order of the flat blocks: moments make sense in no other.
std::string Trainer::layout() const {
  io::Sha256 sum;
  for (const Segment& s : parts_.learner.segments()) {
    const std::string text = fmt::format("{} {} {}\n", s.name, s.first, s.count);
    sum.add(std::as_bytes(std::span(text)));
  }
  return sum.hex();
}

// What determines the run's numbers. Limits are not in it: a run may be resumed for longer. The keys are part
// of state.json's format.
nlohmann::ordered_json Trainer::description() const {
  const TrainOptions& o = options_;
  auto all = nlohmann::ordered_json::parse(parts_.description);
  all["batch"] = o.batch;
  all["rate"] = o.rate;
  all["schedule"] = name_of(o.schedule);
  all["warmup"] = o.warmup;
  if (o.schedule == Schedule::kStable) all["cooldown"] = o.cooldown;
  all["optimiser"] = name_of(o.method);
  all["betas"] = {o.beta1, o.beta2};
  all["eps"] = o.eps;
  all["decay"] = o.decay;
  all["clip"] = o.clip;
  all["average"] = o.average;
  all["outlier"] = *o.outlier;
  all["seed"] = o.seed;
  all["dropout_on"] = parts_.dropout;
  return all;
}

// With limits and all: what ranks must have in common.
nlohmann::ordered_json Trainer::rank_description() const {
  const TrainOptions& o = options_;
  nlohmann::ordered_json all = description();
  all["model"] = layout();
  all["data"] = parts_.source.cursor();
  all["held-out data"] = held_out_start_;
  for (const TermSpec& term : parts_.source.terms())
    all["losses"].push_back({term.name, int(term.head), term.weight});
  all["limits"] = {o.steps, o.tokens, o.seconds};
  all["cooldown"] = o.cooldown;
  all["eval-every"] = {*o.eval_every, parts_.eval_sequences, o.patience};
  all["save-every"] = {o.save_every, o.save_seconds};
  return all;
}

nlohmann::ordered_json Trainer::state() const {
  return {{"step", step_},
          {"tokens", tokens_},
          {"seconds", seconds()},
          {"cursor", parts_.source.cursor()},
          {"loss", progress_.loss},
          {"layout", layout()},
          {"optimiser", optimizer_.counters()},
          {"best", {{"step", best_step_}, {best_key(), best_result_}, {"waited", evals_since_best_}}},
          {"looked_at_step", evaluated_step_.value_or(0)},
          {"options", description()}};
}

fs::path Trainer::save(bool best) {
  check_same_numbers(parts_.ranks, {parts_.learner.parameters(), optimizer_.first_moments(),
                                    optimizer_.second_moments(), optimizer_.mean()});
  saved_step_ = step_, saved_at_ = clock_;
  if (!folder_) return {};
  checkpoint_ = folder_->save(
      step_,
      [&](const fs::path& folder) {
        {
          const MeanInPlace mean(parts_.learner, optimizer_);
          parts_.learner.save(folder);
        }
        if (parts_.tokenizer)
          for (const std::string& name : tokenizer_files_in(*parts_.tokenizer))
            write_file(folder / name, parts_.tokenizer->read(name).text());
        write_moments(folder / kOptimizerFile, optimizer_, parts_.learner.parameters());
      },
      io::dump(state()), best);
  folder_->prune(options_.keep, {step_, best_step_});
  if (events_.saved) events_.saved(checkpoint_);
  return checkpoint_;
}

void Trainer::begin() {
  check_same_run(parts_.ranks, rank_description());
  std::string state;
  if (first_rank()) {
    folder_.emplace(options_.out);
    folder_->lock();
    if (!options_.resume && !folder_->steps().empty())
      throw Error(fmt::format("{} has checkpoints of a run already", options_.out.string()),
                  "`resume` to continue it, or another `out`", "out");
    folder_->remove_leftovers();
    std::optional<RunFolder::Found> found;
    if (options_.resume)
      found = folder_->newest([&](const std::string& what) { tell(events_.warning, what); });
    if (found) {
      restore(*found);
      folder_->resume_from(*found, best_step_of(*found),
                           [&](const std::string& what) { tell(events_.warning, what); });
      state = found->state;
    } else if (options_.resume) {
      tell(events_.note, fmt::format("{} has no checkpoint: the run starts", options_.out.string()));
    }
  }
  Collective& ranks = parts_.ranks;
  ranks.broadcast(state);
  ranks.broadcast(parts_.learner.parameters());
  if (state.empty()) {
    std::ranges::copy(parts_.learner.parameters().first(optimizer_.mean().size()), optimizer_.mean().begin());
  } else {
    ranks.broadcast(optimizer_.mean());
    ranks.broadcast(optimizer_.first_moments());
    ranks.broadcast(optimizer_.second_moments());
    set_state(io::parse_json(state, "state.json"), (options_.out / "state.json").string());
  }
  start_ = now();
  clock_ = saved_at_ = value_of_rank_0(ranks, start_);
  agreed_seconds_ = seconds_before_;
  session_ = rate_from_ = {Clock::now(), tokens_, fraction_at(agreed_seconds_)};
}

// Logs are opened when there is something to write: a run with nothing left to do leaves them as they are.
void Trainer::open_log() {
  if (first_rank() && !log_) log_.emplace(options_.out, step_);
}

void Trainer::restore(const RunFolder::Found& found) {
  const std::string name = (found.folder / "state.json").string();
  const nlohmann::json state = io::parse_json(found.state, name);
  if (io::get_string(state, "layout", name) != layout())
    throw Error(fmt::format("{} is a checkpoint of another model", found.folder.string()),
                "the same `size` or `config`, and `objective`, as the run had", "resume");
  if (const std::vector<std::string> missing = parts_.learner.load(found.folder); !missing.empty())
    throw Error(fmt::format("{} has no weights for {}", found.folder.string(), missing[0]));
  read_moments(found.folder / kOptimizerFile, optimizer_, parts_.learner.parameters());
  checkpoint_ = found.folder;
  tell(events_.note, fmt::format("continues from {}", found.folder.string()));
  const nlohmann::json now = description();
  const auto then = state.find("options");
  if (then == state.end() || !then->is_object()) return;
  const std::string muon(name_of(OptimizerMethod::kMuon));
  for (const auto& [key, value] : now.items())
    if (const auto before = then->find(key); before != then->end() && *before != value) {
      // The best checkpoint so far was chosen by these: others would be compared with it in vain.
      if (key == "metric" || key == "dev rows")
        throw Error(key == "metric" ? fmt::format("the run was measured by {}, and would go on with {}",
                                                  in_words(*before), in_words(value))
                                    : std::string("the run was measured on other dev rows"),
                    "`resume` with what it had, or another `out`", "resume");
      tell(events_.warning,
           fmt::format(
               "the run continues with another {}: {}, not {}{}", key == "optimiser" ? "optimizer" : key,
               in_words(value), in_words(*before),
               key == "optimiser" && (value == muon || *before == muon) ? "; its moments begin anew" : ""));
    }
}

void Trainer::set_state(const nlohmann::json& state, const std::string& name) {
  step_ = io::get_size(state, "step", name, {}, kMostSteps);
  tokens_ = io::get_size(state, "tokens", name, {}, kMostSteps);
  seconds_before_ = io::get_number(state, "seconds", name);
  parts_.source.seek(io::get_string(state, "cursor", name));
  const auto part = [&](const char* key) -> const nlohmann::json& {
    const auto found = state.find(key);
    if (found == state.end() || !found->is_object()) throw Error(fmt::format("{} has no {}", name, key));
    return *found;
  };
  optimizer_.set_counters(part("optimiser"), name);
  if (const auto then = state.find("options"); then != state.end() && then->is_object()) {
    const std::string now(name_of(options_.method)), muon(name_of(OptimizerMethod::kMuon)),
        before = then->contains("optimiser") ? io::get_string(*then, "optimiser", name) : now;
    // Muon's first moments are of other gradients than Adam's, and its second are none.
    if (before != now && (before == muon || now == muon)) optimizer_.forget_moments();
  }
  best_step_ = io::get_size(part("best"), "step", name, {}, kMostSteps);
  best_result_ = io::get_number(part("best"), best_key(), name);
  evals_since_best_ = io::get_size(part("best"), "waited", name);
  evaluated_step_ = io::get_size(state, "looked_at_step", name, {}, kMostSteps);
  // Null where it was not finite.
  const auto loss = state.find("loss");
  progress_.loss = loss != state.end() && loss->is_number() ? loss->get<double>() : NAN;
  saved_step_ = step_;
}

}  // namespace bertie
