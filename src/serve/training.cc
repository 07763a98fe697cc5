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
constexpr size_t kPiece = size_t{1} << 20;        // read at once
constexpr size_t kLongestLine = size_t{1} << 20;  // a longer one is no run's
constexpr size_t kMostPoints = 2'000'000;         // a run of 20 million steps

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
  if (!entry.contains("tokens")) return void(evaluations_.push_back(std::move(entry)));
  if (count_ == kMostPoints) return;
  ++count_;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_number()) continue;
    std::vector<float>& column = points_[key];
    column.resize(count_, NAN);
    column.back() = value.get<float>();
  }
  for (auto& [key, column] : points_) column.resize(count_, NAN);
}

void TrainingLog::add(std::string_view lines) {
  for (size_t end; (end = lines.find('\n')) != lines.npos; lines.remove_prefix(end + 1))
    add_line(lines.substr(0, end));
}

// A run that resumes takes lines back: a file that is shorter than it was is read anew.
void TrainingLog::read_more() {
  if (file_.empty()) return;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file_, error);
  if (error || size < read_) points_.clear(), evaluations_.clear(), count_ = 0, read_ = 0;
  if (error) return;
  std::ifstream in(file_, std::ios::binary);
  in.seekg(std::streamoff(read_));
  std::string text;
  while (in && read_ < size) {
    const size_t had = text.size();
    text.resize(had + kPiece);
    in.read(text.data() + had, kPiece);
    text.resize(had + size_t(in.gcount()));
    const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
    add(std::string_view(text).substr(0, whole));
    read_ += whole;
    text.erase(0, whole);
    if (text.size() > kLongestLine) return;
  }
}

Json TrainingLog::curves(size_t most) {
  std::lock_guard lock(mutex_);
  read_more();
  Json points = Json::object();
  const size_t buckets = std::min(count_, most);
  for (const auto& [key, column] : points_) points[key] = means(column, buckets);
  const size_t skipped = evaluations_.size() > most ? evaluations_.size() - most : 0;
  return {{"points", points},
          {"evaluations", std::vector<Json>(evaluations_.begin() + ptrdiff_t(skipped), evaluations_.end())}};
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
    const std::filesystem::path log = folder / "log.jsonl";
    if (!std::filesystem::is_regular_file(log))
      throw Error(fmt::format("{} is no run: it has no log.jsonl", folder.string()),
                  "`run` with the folder of a pretrain, or with run/seed-1 below that of a finetune", "run");
    logs[name] = std::make_unique<TrainingLog>(log);
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
  for (const auto& [name, log] : call.service.training) {
    if (name != call.below) continue;
    Json reply{{"name", name}};
    reply.update(log->curves());
    co_return json_reply(io::dump(reply));
  }
  throw RequestError(404, "there is no such run");
}

constexpr Route kRoutes[] = {
    {.method = "GET", .path = "/training", .run = names},
    {.method = "GET", .path = "/training/", .run = curves},
};

}  // namespace

std::span<const Route> training_routes() { return kRoutes; }

}  // namespace bertie::serve
