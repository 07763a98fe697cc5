#include "jobs.h"

#include <string>

namespace bertie::python {

bool Callbacks::stop() {
  bool wanted = false;
  guarded([&] {
    check_signals();
    wanted = is_true(call("stop"));
  });
  return wanted || raised_;
}

void Callbacks::listen(TrainEvents& events) {
  events.progress = [this](const TrainProgress& progress) { guarded([&] { call("on_step", progress); }); };
  events.evaluated = [this](const EvalResult& result) { guarded([&] { call("on_evaluation", result); }); };
  events.saved = [this](const std::filesystem::path& path) {
    guarded([&] { call("on_saved", path.string()); });
  };
  events.note = [this](std::string_view what) { guarded([&] { call("on_note", python_str(what)); }); };
  events.warning = [this](std::string_view what) { guarded([&] { call("on_warning", python_str(what)); }); };
  events.stop = [this] { return stop(); };
}

void Callbacks::listen(FinetuneEvents& events) {
  listen(static_cast<TrainEvents&>(events));
  events.planned = [this](const FinetunePlan& plan) { guarded([&] { call("on_plan", plan); }); };
  events.seed_begun = [this](size_t index) { guarded([&] { call("on_seed_begun", index); }); };
  events.seed_done = [this](const SeedResult& seed) { guarded([&] { call("on_seed", seed); }); };
  // Before the first step there is no stop to ask for: what is raised here ends the run at once.
  events.taught = [this](size_t done, size_t all) {
    nb::gil_scoped_acquire gil;
    check_signals();
    call("on_taught", done, all);
  };
  events.baseline = [this](std::string_view name, double fraction) {
    nb::gil_scoped_acquire gil;
    check_signals();
    call("on_baseline", python_str(name), fraction);
  };
  events.baseline_done = [this](const BaselineResult& baseline) {
    nb::gil_scoped_acquire gil;
    call("on_baseline_done", baseline);
  };
}

std::function<void(const Error&)> Callbacks::bad_row() {
  if (functions_.attr("get")("on_bad_row").is_none()) return {};
  return [this](const Error& error) {
    nb::gil_scoped_acquire gil;
    check_signals();
    call("on_bad_row", python_str(error.what()));
  };
}

void Callbacks::raise_if_any() {
  if (raised_) std::rethrow_exception(raised_);
}

}  // namespace bertie::python
