#include "serve/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "bertie/error.h"
#include "bertie/hub.h"
#include "io/json.h"
#include "serve/service.h"

namespace bertie::serve {
namespace {

constexpr const char* kModelsLog = "training.jsonl";
constexpr size_t kPiece = size_t{8} << 20;  // read at once; a line that is longer is no run's
constexpr size_t kMostPoints = 2'000'000;   // a run of 20 million steps
constexpr size_t kCompared = 4096;          // bytes that tell whether it is the same log still
constexpr size_t kMostKeys = 64, kMostEvaluations = 400, kMostShown = 400;
constexpr auto kOld = std::chrono::seconds(1);

using Json = nlohmann::ordered_json;

// Means over buckets; where a bucket has no number there is none.
Json means(const std::vector<float>& values, size_t buckets) {
  Json out = Json::array();
  for (size_t b = 0; b < buckets; ++b) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = b * values.size() / buckets; i < (b + 1) * values.size() / buckets; ++i)
      if (!std::isnan(values[i])) sum += values[i], ++count;
    out.push_back(count ? Json(float(sum / double(count))) : Json());
  }
  return out;
}

}  // namespace

void TrainingLog::add_line(std::string_view line) {
  Json entry = Json::parse(line, nullptr, false);
  if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number()) return;
  if (!entry.contains("tokens")) {
    evaluations_.push_back(std::move(entry));
    if (evaluations_.size() > kMostEvaluations) evaluations_.pop_front();
    return;
  }
  if (count_ == kMostPoints || !entry["tokens"].is_number()) return;
  ++count_;
  step_ = entry["step"].get<double>(), tokens_ = entry["tokens"].get<double>();
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_number() || (points_.size() == kMostKeys && !points_.contains(key))) continue;
    std::vector<float>& column = points_[key];
    column.resize(count_, NAN);
    column.back() = value.get<float>();
  }
  for (auto& [key, column] : points_) column.resize(count_, NAN);
}

void TrainingLog::add(std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1);
    add_line(lines.substr(0, end + 1));
    lines.remove_prefix(end + 1);
  }
}

void TrainingLog::forget() {
  points_.clear(), evaluations_.clear(), last_.clear();
  count_ = 0, read_ = 0, step_ = tokens_ = 0;
}

// A run that resumes takes lines back, and another may have begun: where the file no longer has what was read
// last, all of it is read anew.
void TrainingLog::read_more() {
  if (file_.empty()) return;
  std::ifstream in(file_, std::ios::binary | std::ios::ate);
  const uint64_t size = in ? uint64_t(in.tellg()) : 0;
  const auto from = [&](uint64_t at, size_t most) {
    std::string text(size_t(std::min<uint64_t>(most, size - std::min(at, size))), '\0');
    in.seekg(std::streamoff(at));
    in.read(text.data(), std::streamsize(text.size()));
    text.resize(size_t(in.gcount()));
    return text;
  };
  if (!last_.empty() && from(read_ - last_.size(), last_.size()) != last_) forget();
  in.clear();
  const std::string text = from(read_, kPiece);
  // Without an end of line in all of it, what is there is passed over.
  const size_t whole = text.size() == kPiece && text.find('\n') == text.npos ? kPiece : text.rfind('\n') + 1;
  if (whole == 0) return;
  const std::string_view lines = std::string_view(text).substr(0, whole);
  add(lines);
  read_ += whole;
  last_ = lines.substr(whole - std::min(whole, kCompared));
}

Json TrainingLog::curves_now(size_t most) {
  read_more();
  Json points = Json::object();
  const size_t buckets = std::min(count_, most);
  for (const auto& [key, column] : points_) points[key] = means(column, buckets);
  return {{"step", step_}, {"tokens", tokens_}, {"points", points}, {"evaluations", evaluations_}};
}

Json TrainingLog::curves(size_t most) {
  std::lock_guard lock(mutex_);
  return curves_now(most);
}

std::string TrainingLog::reply(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!reply_.empty() && now - replied_ < kOld) return reply_;
  Json all{{"name", name}};
  all.update(curves_now(kMostShown));
  replied_ = now;
  return reply_ = io::dump(all);
}

TrainingLogs training_logs(const ServeOptions& options) {
  TrainingLogs logs;
  const auto add_model = [&](const std::string& name, const ModelFiles& files) {
    if (files.has(kModelsLog)) logs[name] = std::make_unique<TrainingLog>(files.read(kModelsLog).text());
  };
  for (const auto& [name, files] : options.models) add_model(name, files);
  for (const std::string& name : options.models.empty() ? embedded_models() : std::vector<std::string>())
    if (name.find('/') == name.npos) add_model(name, ModelFiles(name));  // heads share their model's files
  for (const auto& [name, folder] : options.runs) {
    if (!std::filesystem::is_directory(folder))  // its log may be yet to come
      throw Error(fmt::format("there is no run {}", folder.string()),
                  "`run` with the folder of a pretrain, or with run/seed-1 below that of a finetune", "run");
    if (logs.contains(name))
      throw Error(fmt::format("two runs are called {}", name), "`run` NAME=DIR gives one another name",
                  "run");
    logs[name] = std::make_unique<TrainingLog>(folder / "log.jsonl");
  }
  return logs;
}

namespace {

Async<HttpReply> names(Call& call) {
  Json all = Json::array();
  for (const auto& [name, log] : call.service.training) all.push_back(name);
  co_return json_reply(io::dump(Json{{"runs", all}}));
}

Async<HttpReply> curves(Call& call) {
  for (const auto& [name, log] : call.service.training)
    if (name == call.below) co_return json_reply(log->reply(name));
  throw RequestError(404, "there is no such run");
}

constexpr Route kRoutes[] = {
    {.method = "GET", .path = "/training", .run = names},
    {.method = "GET", .path = "/training/", .run = curves},
};

}  // namespace

std::span<const Route> training_routes() { return kRoutes; }

}  // namespace bertie::serve
