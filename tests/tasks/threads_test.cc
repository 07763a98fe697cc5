// One TextModel, many threads: every task gives what it gives alone. Meant for the thread sanitizer too.
#include <atomic>
#include <functional>
#include <thread>

#include "bertie/explain.h"
#include "bertie/json.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

constexpr size_t kThreads = 8, kRounds = 6;

const std::string_view kText = "Anna Lindqvist came to the old harbour in 1912.";
const std::vector<std::string> kTexts{"The harbour", "", "Anna came to Gothenburg and opened a bakery.",
                                      "It is 1912."};

using Task = std::function<std::string(const TextModel&)>;  // a task's result, as JSON

template <class Result>
std::string all_of(const std::vector<Result>& results) {
  std::string out;
  for (const Result& result : results) out += to_json(result) + "\n";
  return out;
}

std::vector<Task> tasks_of(const TextModel& model) {
  std::vector<Task> tasks{[](const TextModel& m) { return to_json(m.embed(kText)); },
                          [](const TextModel& m) { return all_of(m.embed(kTexts)); },
                          [](const TextModel& m) { return to_json(m.attend(kText)); },
                          [](const TextModel& m) { return to_json(m.with_max_length(7).embed(kText)); },
                          [](const TextModel& m) { return to_json(m.with_threads(2).embed(kText)); }};
  if (model.can(Head::kMaskedLm)) {
    const std::string mask(model.tokenizer().token(model.tokenizer().mask_id()));
    tasks.push_back([mask](const TextModel& m) { return to_json(m.fill_mask("The " + mask + " is old.")); });
  }
  if (model.can(Head::kNextSentence))
    tasks.push_back([](const TextModel& m) { return to_json(m.next_sentence(kText, "She was young.")); });
  if (model.can(Head::kClassify)) {
    tasks.push_back([](const TextModel& m) { return all_of(m.classify(kTexts)); });
    tasks.push_back([](const TextModel& m) { return to_json(m.classify(kText, "She was young.")); });
  }
  if (model.can(Head::kTag)) tasks.push_back([](const TextModel& m) { return all_of(m.tag(kTexts)); });
  if (model.can(Head::kAnswer))
    tasks.push_back([](const TextModel& m) { return to_json(m.answer("Who came?", kText)); });
  if (model.can(Head::kCausalLm))
    tasks.push_back([](const TextModel& m) {
      return to_json(m.generate(kText, {.max_new_tokens = 4, .temperature = 1}));
    });
  return tasks;
}

TEST(Threads, CallingOneModelAtOnceGetWhatTheyWouldGetAlone) {
  for (const std::string& name : test::golden_tasks()) {
    SCOPED_TRACE(name);
    const TextModel model = load(test::golden_task(name), {.threads = 1});
    const std::vector<Task> tasks = tasks_of(model);
    std::vector<std::string> alone;
    for (const Task& task : tasks) alone.push_back(task(model));
    std::atomic<size_t> different{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < kRounds; ++i) {
          const size_t task = (t * 3 + i) % tasks.size();
          if (tasks[task](model) != alone[task]) ++different;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(different, 0u);
  }
}

TEST(Threads, MayEndWhileTheModelGoesOn) {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> vectors(kThreads);
  {
    const TextModel model = load(test::golden_task("sentence-similarity-bert"), {.threads = 1});
    for (size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&vectors, model, t] { vectors[t] = model.embed(kText).values; });
  }  // each thread has its own handle
  for (std::thread& thread : threads) thread.join();
  for (const auto& vector : vectors) EXPECT_EQ(vector, vectors[0]);
}

}  // namespace
}  // namespace bertie
