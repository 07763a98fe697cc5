// Fine-tuning, pre-training, and how good a model is.
#include <string>
#include <vector>

#include "bertie/data.h"
#include "bertie/evaluate.h"
#include "bertie/finetune.h"
#include "bertie/json.h"
#include "bertie/train.h"
#include "jobs.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {
namespace {

void bind_reports(nb::module_& m) {
  result_class(m, "NamedScore", "A number that says how good something is.", Field{"name", &NamedScore::name},
               Field{"value", &NamedScore::value}, Field{"low", &NamedScore::low},
               Field{"high", &NamedScore::high}, Field{"higher_is_better", &NamedScore::higher_is_better});
  result_class(m, "Metric", "One of a run's losses.", Field{"name", &Metric::name},
               Field{"loss", &Metric::loss}, Field{"accuracy", &Metric::accuracy},
               Field{"count", &Metric::count});
  result_class(m, "TrainProgress", "A run after a step.", Field{"step", &TrainProgress::step},
               Field{"steps", &TrainProgress::steps}, Field{"tokens", &TrainProgress::tokens},
               Field{"fraction", &TrainProgress::fraction}, Field{"epochs", &TrainProgress::epochs},
               Field{"loss", &TrainProgress::loss}, Field{"metrics", &TrainProgress::metrics},
               Field{"rate", &TrainProgress::rate}, Field{"gradient_norm", &TrainProgress::gradient_norm},
               Field{"tokens_per_second", &TrainProgress::tokens_per_second},
               Field{"seconds", &TrainProgress::seconds}, Field{"seconds_left", &TrainProgress::seconds_left},
               Field{"skipped", &TrainProgress::skipped});
  result_class(m, "Watched", "What a model says now of a text with masks.", Field{"text", &Watched::text},
               Field{"masks", &Watched::masks});
  result_class(m, "EvalResult", "A run's evaluation.", Field{"step", &EvalResult::step},
               Field{"loss", &EvalResult::loss}, Field{"metrics", &EvalResult::metrics},
               Field{"scores", &EvalResult::scores}, Field{"watched", &EvalResult::watched},
               Field{"sequences", &EvalResult::sequences}, Field{"best", &EvalResult::best});
  result_class(m, "TrainResult", "What a run came to.", Field{"end", &TrainResult::end},
               Field{"step", &TrainResult::step}, Field{"tokens", &TrainResult::tokens},
               Field{"skipped", &TrainResult::skipped}, Field{"seconds", &TrainResult::seconds},
               Field{"loss", &TrainResult::loss}, Field{"best_loss", &TrainResult::best_loss},
               Field{"best_score", &TrainResult::best_score}, Field{"best_step", &TrainResult::best_step},
               Field{"checkpoint", &TrainResult::checkpoint});
  result_class(m, "LanguageModelScores", "How well a language model knows a text.",
               Field{"sequences", &LanguageModelScores::sequences},
               Field{"tokens", &LanguageModelScores::tokens}, Field{"metrics", &LanguageModelScores::metrics},
               Field{"bits_per_byte", &LanguageModelScores::bits_per_byte});
}

void bind_evaluation(nb::module_& m) {
  result_class(m, "ClassScore", "Of one class, or of one kind of entity.", Field{"label", &ClassScore::label},
               Field{"precision", &ClassScore::precision}, Field{"recall", &ClassScore::recall},
               Field{"f1", &ClassScore::f1}, Field{"support", &ClassScore::support},
               Field{"predicted", &ClassScore::predicted});
  result_class(m, "Mistake", "A row that was predicted wrongly.", Field{"row", &Mistake::row},
               Field{"line", &Mistake::line}, Field{"confidence", &Mistake::confidence},
               Field{"a", &Mistake::a}, Field{"b", &Mistake::b}, Field{"right", &Mistake::right},
               Field{"predicted", &Mistake::predicted});
  result_class(m, "Evaluation", "How good a model is on labelled data.", Field{"kind", &Evaluation::kind},
               Field{"rows", &Evaluation::rows}, Field{"scores", &Evaluation::scores},
               Field{"classes", &Evaluation::classes}, Field{"labels", &Evaluation::labels},
               Field{"confusion", &Evaluation::confusion}, Field{"row_scores", &Evaluation::row_scores},
               Field{"best_threshold", &Evaluation::best_threshold},
               Field{"best_exact_threshold", &Evaluation::best_exact_threshold})
      .def(
          "score_of",
          [](const Evaluation& self, const std::string& name) {
            for (const NamedScore& score : self.scores)
              if (score.name == name) return score.value;
            throw nb::key_error(name.c_str());
          },
          nb::arg("name"), "The value of a score by its name: \"accuracy\", \"f1\" …");
  result_class(m, "SeedResult", "What a run with one seed came to.", Field{"seed", &SeedResult::seed},
               Field{"best_step", &SeedResult::best_step}, Field{"scores", &SeedResult::scores},
               Field{"seconds", &SeedResult::seconds}, Field{"tokens", &SeedResult::tokens});
  result_class(m, "BaselineResult", "A simpler model on the same rows.", Field{"name", &BaselineResult::name},
               Field{"evaluation", &BaselineResult::evaluation}, Field{"seconds", &BaselineResult::seconds});
  using Options = TrainOptions;
  result_class(
      m, "TrainOptions", "How a model learns: bertie/train.h says what each means.",
      Field{"out", &Options::out}, Field{"resume", &Options::resume}, Field{"batch", &Options::batch},
      Field{"accumulate", &Options::accumulate}, Field{"steps", &Options::steps},
      Field{"tokens", &Options::tokens}, Field{"seconds", &Options::seconds}, Field{"rate", &Options::rate},
      Field{"schedule", &Options::schedule}, Field{"warmup", &Options::warmup},
      Field{"cooldown", &Options::cooldown}, Field{"method", &Options::method},
      Field{"beta1", &Options::beta1}, Field{"beta2", &Options::beta2}, Field{"eps", &Options::eps},
      Field{"decay", &Options::decay}, Field{"clip", &Options::clip}, Field{"average", &Options::average},
      Field{"outlier", &Options::outlier}, Field{"bf16", &Options::bf16}, Field{"seed", &Options::seed},
      Field{"eval_every", &Options::eval_every}, Field{"eval_sequences", &Options::eval_sequences},
      Field{"patience", &Options::patience}, Field{"save_every", &Options::save_every},
      Field{"save_seconds", &Options::save_seconds}, Field{"keep", &Options::keep},
      Field{"log_every", &Options::log_every});
  using Plan = FinetunePlan;
  result_class(
      m, "FinetunePlan", "What a job will do.", Field{"train_found", &Plan::train_found},
      Field{"dev_found", &Plan::dev_found}, Field{"rows", &Plan::rows}, Field{"dev_rows", &Plan::dev_rows},
      Field{"bad_rows", &Plan::bad_rows}, Field{"invalid_rows", &Plan::invalid_rows},
      Field{"first_invalid", &Plan::first_invalid}, Field{"unlabeled_found", &Plan::unlabeled_found},
      Field{"unlabeled_rows", &Plan::unlabeled_rows}, Field{"model", &Plan::model},
      Field{"problem", &Plan::problem}, Field{"labels", &Plan::labels}, Field{"least", &Plan::least},
      Field{"largest", &Plan::largest}, Field{"lone_rows", &Plan::lone_rows},
      Field{"dev_labels_are_places", &Plan::dev_labels_are_places}, Field{"truncated", &Plan::truncated},
      Field{"dev_truncated", &Plan::dev_truncated}, Field{"longest", &Plan::longest},
      Field{"max_length", &Plan::max_length}, Field{"most_length", &Plan::most_length},
      Field{"tokens", &Plan::tokens}, Field{"continues_head", &Plan::continues_head},
      Field{"epochs", &Plan::epochs}, Field{"train", &Plan::train});
  result_class(m, "FinetuneResult", "What fine-tuning came to.", Field{"end", &FinetuneResult::end},
               Field{"folder", &FinetuneResult::folder}, Field{"seeds", &FinetuneResult::seeds},
               Field{"best", &FinetuneResult::best}, Field{"evaluation", &FinetuneResult::evaluation},
               Field{"teacher", &FinetuneResult::teacher}, Field{"rows", &FinetuneResult::rows},
               Field{"dev_rows", &FinetuneResult::dev_rows}, Field{"baselines", &FinetuneResult::baselines});
}

template <class Job>
void bind_data_options(nb::class_<Job>& job) {
  PartOf<Job, DatasetOptions>(job, &Job::data)
      .option("text", &DatasetOptions::text)
      .option("text_pair", &DatasetOptions::text_pair)
      .option("label", &DatasetOptions::label)
      .option("problem", &DatasetOptions::problem)
      .option("skip_bad", &DatasetOptions::skip_bad)
      .option("strict", &DatasetOptions::strict);
}

void bind_finetune(nb::module_& m) {
  nb::class_<FinetuneJob> job(m, "FinetuneJob",
                              "Options of finetune: bertie/finetune.h says what each means.");
  job.def(nb::init<>())
      .def_rw("kind", &FinetuneJob::kind)
      .def_rw("model", &FinetuneJob::model)
      .def_rw("fresh_head", &FinetuneJob::fresh_head)
      .def_rw("unlabeled_file", &FinetuneJob::unlabeled_file)
      .def_rw("train_file", &FinetuneJob::train_file)
      .def_rw("dev_file", &FinetuneJob::dev_file)
      .def_rw("dev_share", &FinetuneJob::dev_share)
      .def_rw("epochs", &FinetuneJob::epochs)
      .def_rw("seeds", &FinetuneJob::seeds)
      .def_rw("metric", &FinetuneJob::metric)
      .def_rw("max_length", &FinetuneJob::max_length)
      .def_rw("stride", &FinetuneJob::stride)
      .def_rw("freeze", &FinetuneJob::freeze)
      .def_rw("layer_decay", &FinetuneJob::layer_decay)
      .def_rw("balance_classes", &FinetuneJob::balance_classes)
      .def_rw("label_smoothing", &FinetuneJob::label_smoothing)
      .def_rw("dropout", &FinetuneJob::dropout)
      .def_rw("recompute", &FinetuneJob::recompute)
      .def_rw("baseline", &FinetuneJob::baseline)
      .def_rw("threads", &FinetuneJob::threads)
      .def_rw("command", &FinetuneJob::command);
  bind_train_options(job);
  bind_teaching(job);
  bind_data_options(job);
  m.def(
      "finetune",
      [](const FinetuneJob& given, nb::dict functions) {
        Callbacks callbacks(functions);
        FinetuneEvents events;
        callbacks.listen(events);
        FinetuneJob copy = given;  // another thread may change the object meanwhile
        copy.data.bad_row = callbacks.bad_row();
        FinetuneResult result;
        {
          nb::gil_scoped_release free;
          result = finetune(copy, events);
        }
        callbacks.raise_if_any();
        return result;
      },
      nb::arg("job"), nb::arg("functions"));
}

void bind_pretrain(nb::module_& m) {
  nb::class_<PretrainJob> job(m, "PretrainJob", "Options of pretrain: bertie/train.h says what each means.");
  job.def(nb::init<>())
      .def_rw("data", &PretrainJob::data)
      .def_rw("size", &PretrainJob::size)
      .def_rw("config", &PretrainJob::config)
      .def_rw("initial_model", &PretrainJob::from, "a checkpoint whose weights are the start")
      .def_rw("initial", &PretrainJob::initial)
      .def_rw("objective", &PretrainJob::objective)
      .def_rw("max_length", &PretrainJob::max_length)
      .def_rw("mask_rate", &PretrainJob::mask_rate)
      .def_rw("mask_rate_end", &PretrainJob::mask_rate_end)
      .def_rw("max_predictions", &PretrainJob::max_predictions)
      .def_rw("whole_words", &PretrainJob::whole_words)
      .def_rw("random_within", &PretrainJob::random_within)
      .def_rw("watch", &PretrainJob::watch)
      .def_rw("dropout", &PretrainJob::dropout)
      .def_rw("recompute", &PretrainJob::recompute)
      .def_rw("threads", &PretrainJob::threads);
  bind_train_options(job);
  bind_teaching(job);
  m.def(
      "pretrain",
      [](const PretrainJob& given, nb::dict functions) {
        Callbacks callbacks(functions);
        TrainEvents events;
        callbacks.listen(events);
        const PretrainJob copy = given;
        TrainResult result;
        {
          nb::gil_scoped_release free;
          result = pretrain(copy, events);
        }
        callbacks.raise_if_any();
        return result;
      },
      nb::arg("job"), nb::arg("functions"));
}

// evaluate's options in one object.
struct EvaluateJob {
  TaskKind kind = TaskKind::kClassify;
  std::string file;
  DatasetOptions data;
  PredictOptions predicting;
  ScoreOptions scoring;
  size_t mistakes = 0;
};

void bind_evaluate(nb::module_& m) {
  nb::class_<EvaluateJob> job(m, "EvaluateJob",
                              "Options of evaluate: bertie/evaluate.h says what each means.");
  job.def(nb::init<>())
      .def_rw("kind", &EvaluateJob::kind)
      .def_rw("file", &EvaluateJob::file)
      .def_rw("mistakes", &EvaluateJob::mistakes, "how many of the surest mistakes to give back");
  bind_data_options(job);
  PartOf<EvaluateJob, PredictOptions>(job, &EvaluateJob::predicting)
      .option("max_length", &PredictOptions::max_length)
      .option("stride", &PredictOptions::stride)
      .option("max_question_tokens", &PredictOptions::max_question_tokens)
      .option("max_answer_tokens", &PredictOptions::max_answer_tokens)
      .option("n_best", &PredictOptions::n_best);
  PartOf<EvaluateJob, ScoreOptions>(job, &EvaluateJob::scoring)
      .option("threshold", &ScoreOptions::threshold)
      .option("metric", &ScoreOptions::metric)
      .option("resamples", &ScoreOptions::resamples)
      .option("confidence", &ScoreOptions::confidence)
      .option("seed", &ScoreOptions::seed);
  m.def(
      "evaluate",
      [](const TextModel& model, const EvaluateJob& given, nb::object progress, nb::dict functions) {
        Callbacks callbacks(functions);
        EvaluateJob copy = given;
        copy.predicting.progress = progress_for(progress);
        copy.data.bad_row = callbacks.bad_row();
        copy.data.places_needed = false;
        Evaluation evaluation;
        std::vector<Mistake> wrong;
        {
          nb::gil_scoped_release free;
          const Dataset data = with_labels_of(model, read_dataset(copy.kind, copy.file, copy.data));
          main_score(data, copy.scoring);
          const Predictions predictions = predict(model, data, copy.predicting);
          evaluation = score(data, predictions, copy.scoring);
          if (copy.mistakes > 0) wrong = mistakes(data, predictions, copy.mistakes, copy.scoring);
        }
        return std::make_tuple(std::move(evaluation), std::move(wrong));
      },
      nb::arg("model"), nb::arg("job"), nb::arg("progress").none(), nb::arg("functions"));

  nb::class_<LanguageModelJob>(m, "LanguageModelJob")
      .def(nb::init<>())
      .def_rw("model", &LanguageModelJob::model)
      .def_rw("data", &LanguageModelJob::data)
      .def_rw("objective", &LanguageModelJob::objective)
      .def_rw("max_length", &LanguageModelJob::max_length)
      .def_rw("mask_rate", &LanguageModelJob::mask_rate)
      .def_rw("whole_words", &LanguageModelJob::whole_words)
      .def_rw("sequences", &LanguageModelJob::sequences)
      .def_rw("seed", &LanguageModelJob::seed)
      .def_rw("threads", &LanguageModelJob::threads);
  m.def(
      "evaluate_language_model",
      [](const LanguageModelJob& given, nb::object progress) {
        LanguageModelJob copy = given;
        copy.progress = progress_for(progress);
        nb::gil_scoped_release free;
        return evaluate(copy);
      },
      nb::arg("job"), nb::arg("progress") = nb::none());
}

// Which texts vocabularies and shards are made of; the functions must outlive what is made here.
TextOptions texts_of(const std::vector<std::string>& files, const std::string& field, bool strict,
                     nb::handle progress, nb::handle warning) {
  TextOptions texts{.inputs = files, .field = field, .strict = strict};
  texts.progress = [progress](uint64_t done, uint64_t all, uint64_t) {
    nb::gil_scoped_acquire gil;
    check_signals();
    if (!progress.is_none()) progress(done, all);
  };
  if (!warning.is_none())
    texts.warning = [warning](const std::string& what, const std::string& hint) {
      nb::gil_scoped_acquire gil;
      warning(python_str(hint.empty() ? what : what + "\n  try: " + hint));
    };
  return texts;
}

void bind_data(nb::module_& m) {
  m.def(
      "learn_vocabulary",
      // `out` is no path, whose default would import pathlib with the module: half of the time that that
      // takes.
      [](const std::vector<std::string>& texts, const std::string& out, size_t size, uint64_t min_frequency,
         size_t alphabet_limit, bool lowercase, const std::optional<std::string>& from_model,
         const std::string& field, bool strict, bool force, int threads, size_t max_words,
         nb::object progress, nb::object on_warning) {
        VocabularyOptions options{.texts = texts_of(texts, field, strict, progress, on_warning),
                                  .out = out,
                                  .force = force,
                                  .size = size,
                                  .min_frequency = min_frequency,
                                  .alphabet_limit = alphabet_limit,
                                  .lowercase = lowercase,
                                  .threads = threads,
                                  .max_words = max_words};
        if (from_model) options.from = ModelFiles(*from_model);
        nb::gil_scoped_release free;
        return learn_vocabulary(options).tokens;
      },
      nb::arg("texts"), nb::arg("out") = "", nb::arg("size") = VocabularyOptions().size,
      nb::arg("min_frequency") = VocabularyOptions().min_frequency,
      nb::arg("alphabet_limit") = VocabularyOptions().alphabet_limit, nb::arg("lowercase") = true,
      nb::arg("from_model") = nb::none(), nb::arg("field") = "", nb::arg("strict") = false,
      nb::arg("force") = false, nb::arg("threads") = 0, nb::arg("max_words") = VocabularyOptions().max_words,
      nb::arg("progress") = nb::none(), nb::arg("on_warning") = nb::none(),
      "A WordPiece vocabulary of files of text: its tokens.");
  m.def(
      "prepare",
      [](const std::vector<std::string>& texts, const std::filesystem::path& out,
         const std::string& tokenizer, double held_out, bool cased, const std::string& field, bool strict,
         bool force, int threads, size_t shard_bytes, nb::object progress, nb::object on_warning) {
        PrepareOptions options{.texts = texts_of(texts, field, strict, progress, on_warning),
                               .out = out,
                               .tokenizer = tokenizer,
                               .cased = cased,
                               .held_out = held_out,
                               .shard_bytes = shard_bytes,
                               .threads = threads,
                               .force = force};
        nb::gil_scoped_release free;
        return to_json(prepare(options), out.string(), 0);
      },
      nb::arg("texts"), nb::arg("out"), nb::arg("tokenizer"), nb::arg("held_out") = 0.,
      nb::arg("cased") = false, nb::arg("field") = "", nb::arg("strict") = false, nb::arg("force") = false,
      nb::arg("threads") = 0, nb::arg("shard_bytes") = PrepareOptions().shard_bytes,
      nb::arg("progress") = nb::none(), nb::arg("on_warning") = nb::none(),
      "Files of text to shards of tokens; what they hold, as JSON.");
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_reports(m);
  bind_evaluation(m);
  bind_finetune(m);
  bind_pretrain(m);
  bind_evaluate(m);
  bind_data(m);
}

}  // namespace bertie::python
