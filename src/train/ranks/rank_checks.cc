#include "train/ranks/rank_checks.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "bertie/error.h"
#include "io/json.h"

namespace bertie {
namespace {

// The indices of counts that are not 0.
std::vector<size_t> nonzero(std::span<const double> counts) {
  std::vector<size_t> all;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) all.push_back(i);
  return all;
}

[[noreturn]] void throw_first_on_rank_0(Collective& ranks, const Error& error) {
  if (ranks.rank() > 0) ranks.barrier();  // until rank 0 has reported it and stops all
  throw error;
}

std::string names_of(const std::vector<size_t>& ranks) {
  return fmt::format("{} {}", ranks.size() > 1 ? "ranks" : "rank", fmt::join(ranks, ", "));
}

uint64_t sum_of_bits(std::span<const float> numbers) {
  uint64_t sum = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    // Depends on the place, so that swapped numbers give another sum.
    sum += uint64_t{std::bit_cast<uint32_t>(numbers[i])} * (2 * (i & 0xFFFF) + 1);
  }
  return sum;
}

}  // namespace

void check_same_run(Collective& ranks, const nlohmann::ordered_json& mine) {
  if (ranks.size() == 1) return;
  std::string text = mine.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  const nlohmann::json own = io::parse_json(text, "this rank's run");  // written and read as rank 0's
  ranks.broadcast(text);
  const nlohmann::json first = io::parse_json(text, "rank 0's run");
  std::vector<std::string> names;
  for (const auto& [name, value] : first.items()) names.push_back(name);
  // A count for each key that differs, one for keys that rank 0 does not have, and one for each rank.
  const size_t things = names.size() + 1;
  std::vector<double> counts(things + size_t(ranks.size()));
  bool differs = own.size() != first.size();
  counts[names.size()] = differs;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = own.find(names[i]);
    if (found != own.end() && *found == first[names[i]]) continue;
    counts[i] = 1;
    differs = true;
  }
  counts[things + size_t(ranks.rank())] = differs;
  ranks.sum(counts);
  const std::vector<size_t> others = nonzero(std::span(counts).subspan(things));
  if (others.empty()) return;
  std::vector<std::string> what;
  for (size_t i : nonzero(std::span(counts).first(things)))
    what.push_back(i < names.size() ? names[i] : "other settings");
  throw_first_on_rank_0(
      ranks, Error(fmt::format("{} would not do the same run as rank 0: not the same {}", names_of(others),
                               fmt::join(what, ", ")),
                   "the same options, the same files and the same version of Bertie on every machine"));
}

void check_same_numbers(Collective& ranks, std::initializer_list<std::span<const float>> mine) {
  if (ranks.size() == 1) return;
  std::string own;
  for (const std::span<const float> numbers : mine) {
    const uint64_t sum = sum_of_bits(numbers);
    own.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  std::string first = own;
  ranks.broadcast(first);
  std::vector<double> counts(size_t(ranks.size()), 0.0);
  counts[size_t(ranks.rank())] = own != first;
  ranks.sum(counts);
  const std::vector<size_t> others = nonzero(counts);
  if (others.empty()) return;
  throw_first_on_rank_0(
      ranks, Error(fmt::format("the model of {} is no longer that of rank 0, so nothing was saved: a machine "
                               "of another kind, or one with a fault",
                               names_of(others)),
                   "machines with the same kind of processor; `resume` continues from the last checkpoint"));
}

double value_of_rank_0(Collective& ranks, double mine) {
  double number = ranks.rank() == 0 ? mine : 0;
  ranks.sum({&number, 1});
  return number;
}

}  // namespace bertie
