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

// What a run that is resumed need not do again, under the run's key (FinetuneSetup::key), and back: nothing
// where the key is another.
std::string seed_json(const SeedResult& result, const std::string& key);
std::optional<SeedResult> seed_from_json(const std::string& text, const std::string& name,
                                         const std::string& key);

// The same for baselines; back come their names, scores and times.
std::string baselines_json(const std::vector<BaselineResult>& results, const std::string& key);
std::vector<BaselineResult> baselines_from_json(const std::string& text, const std::string& name,
                                                const std::string& key);

}  // namespace bertie
