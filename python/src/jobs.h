#pragma once
// Options of a job as attributes of a Python object, and a run's events as calls of Python functions.
#include <nanobind/nanobind.h>

#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "bertie/finetune.h"
#include "bertie/train.h"
#include "calls.h"
#include "result_class.h"

namespace bertie::python {

// Binds the members of a part of a job as if they were the job's own: job.rate is job.train.rate.
template <class Job, class Part>
class PartOf {
 public:
  PartOf(nb::class_<Job>& job, Part Job::*part) : job_(job), part_(part) {}

  template <class Member>
  PartOf& option(const char* name, Member Part::*member) {
    job_.def_prop_rw(
        name, [part = part_, member](const Job& job) { return job.*part.*member; },
        [part = part_, member](Job& job, Member value) { job.*part.*member = std::move(value); });
    return *this;
  }

 private:
  nb::class_<Job>& job_;
  Part Job::*part_;
};

template <class Job>
void bind_train_options(nb::class_<Job>& job) {
  PartOf<Job, TrainOptions>(job, &Job::train)
      .option("out", &TrainOptions::out)
      .option("resume", &TrainOptions::resume)
      .option("batch", &TrainOptions::batch)
      .option("accumulate", &TrainOptions::accumulate)
      .option("steps", &TrainOptions::steps)
      .option("tokens", &TrainOptions::tokens)
      .option("seconds", &TrainOptions::seconds)
      .option("rate", &TrainOptions::rate)
      .option("schedule", &TrainOptions::schedule)
      .option("warmup", &TrainOptions::warmup)
      .option("cooldown", &TrainOptions::cooldown)
      .option("method", &TrainOptions::method)
      .option("beta1", &TrainOptions::beta1)
      .option("beta2", &TrainOptions::beta2)
      .option("average", &TrainOptions::average)
      .option("eps", &TrainOptions::eps)
      .option("decay", &TrainOptions::decay)
      .option("clip", &TrainOptions::clip)
      .option("outlier", &TrainOptions::outlier)
      .option("bf16", &TrainOptions::bf16)
      .option("seed", &TrainOptions::seed)
      .option("eval_every", &TrainOptions::eval_every)
      .option("eval_sequences", &TrainOptions::eval_sequences)
      .option("patience", &TrainOptions::patience)
      .option("save_every", &TrainOptions::save_every)
      .option("save_seconds", &TrainOptions::save_seconds)
      .option("keep", &TrainOptions::keep)
      .option("log_every", &TrainOptions::log_every);
}

template <class Job>
void bind_teaching(nb::class_<Job>& job) {
  PartOf<Job, Teaching>(job, &Job::teaching)
      .option("teacher", &Teaching::teacher)
      .option("teacher_layers", &Teaching::layers)
      .option("depth", &Teaching::depth)
      .option("temperature", &Teaching::temperature)
      .option("soft_weight", &Teaching::soft_weight)
      .option("hard_weight", &Teaching::hard_weight)
      .option("hidden_weight", &Teaching::hidden_weight);
}

// Python's functions by the events' names, in a dict that outlives the run. A run cannot end in the middle of
// a step: what a function raises, and Ctrl-C, make it save and end at the next one, and are raised then.
class Callbacks {
 public:
  explicit Callbacks(nb::dict functions) : functions_(functions) {}

  void listen(TrainEvents& events);
  void listen(FinetuneEvents& events);
  // Of DatasetOptions; empty where there is no function, for without one the library does not ask.
  std::function<void(const Error&)> bad_row();

  // Of the run's end.
  void raise_if_any();

 private:
  // Calls functions[name](arguments...), where there is one.
  template <class... Arguments>
  nb::object call(const char* name, Arguments&&... arguments) {
    const nb::object function = functions_.attr("get")(name);
    return function.is_none() ? function : function(std::forward<Arguments>(arguments)...);
  }
  template <class Work>
  void guarded(Work work) {
    nb::gil_scoped_acquire gil;
    if (raised_) return;
    try {
      work();
    } catch (nb::python_error&) {
      raised_ = std::current_exception();
    }
  }
  bool stop();

  nb::handle functions_;
  std::exception_ptr raised_;
};

}  // namespace bertie::python
