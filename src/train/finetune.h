#pragma once
// Fine-tuning on ranks that the caller has joined; bertie::finetune in bertie/finetune.h joins them itself.
#include "bertie/finetune.h"
#include "train/ranks/collective.h"

namespace bertie {

FinetuneResult finetune(const FinetuneJob& job, Collective& ranks, const FinetuneEvents& events);

// What a run leaves beside its weights (finetune_report.cc).
struct FinetuneReport {
  const FinetuneJob& job;
  const FinetunePlan& plan;
  const FinetuneResult& result;
};
std::string metrics_json(const FinetuneReport& report);
std::string model_card(const FinetuneReport& report);

// A seed's part of metrics.json, and back: what a run that is resumed need not do again.
std::string to_json(const SeedResult& result);
SeedResult seed_from_json(const std::string& text, const std::string& name);

// The same for baselines; back come their names, scores and times.
std::string baselines_json(const std::vector<BaselineResult>& results);
std::vector<BaselineResult> baselines_from_json(const std::string& text, const std::string& name);

}  // namespace bertie
