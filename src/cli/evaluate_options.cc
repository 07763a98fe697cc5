// The table's chapter about evaluation.
#include "bertie/dataset.h"
#include "cli/options.h"

namespace bertie::cli {

std::vector<Choice> task_choices() {
  return {{"classify", "texts: classes, labels or numbers", int(TaskKind::kClassify)},
          {"pair", "pairs of texts: likewise", int(TaskKind::kPair)},
          {"tag", "the words of sentences: entities and the like", int(TaskKind::kTag)},
          {"answer", "questions: where a context answers them", int(TaskKind::kAnswer)}};
}

std::vector<Option> labelled_data_options() {
  return {{.name = "column",
           .argument = "NAME",
           .help = "column of the text, by name or number from 1",
           .standard = "found by usual names",
           .to = &Settings::column},
          {.name = "column-pair",
           .argument = "NAME",
           .help = "column of the second text of a pair",
           .standard = "likewise",
           .to = &Settings::column_pair},
          {.name = "label",
           .argument = "NAME",
           .help = "column of the label; a,b,c are three that say 0 or 1 for the label of their name",
           .standard = "likewise",
           .to = &Settings::label},
          {.name = "problem",
           .argument = "NAME",
           .help = "what labels are",
           .standard = "found out",
           .to = &Settings::problem,
           .choices = {{"classes", "one of several", int(Problem::kSingleLabel)},
                       {"labels", "any number of several", int(Problem::kMultiLabel)},
                       {"number", "a number: regression", int(Problem::kRegression)}}},
          {.name = "skip-bad",
           .help = "leave out rows that cannot be used, and count them",
           .to = &Settings::skip_bad}};
}

std::vector<Option> chapters(std::initializer_list<std::vector<Option>> all) {
  std::vector<Option> options;
  for (const auto& chapter : all) options.insert(options.end(), chapter.begin(), chapter.end());
  return options;
}

std::vector<Choice> evaluate_choices() {
  std::vector<Choice> choices = task_choices();
  choices.push_back({"lm", "held-out text: a language model's tokens and sentences", kLanguageModel});
  return choices;
}

std::vector<Command> evaluate_commands() {
  return {
      {.name = "evaluate",
       .words = "KIND",
       .most_words = 1,
       .summary = "how good a model is on labelled data, or on held-out text",
       .about =
           "Predicts every row of --data and counts as the official scorers do: accuracy, F1, Matthews and "
           "correlations as scikit-learn and SciPy, entities as conlleval and seqeval, answers as SQuAD's "
           "scripts. With each score comes the interval in which it would be for other rows of the same "
           "kind, by the bootstrap. docs/evaluation.md says what is counted how.\n\n"
           "--data takes CSV, TSV (GLUE's as they come), JSON lines, CoNLL columns or SQuAD's JSON, plain "
           "or packed. --compare puts a second model beside the first, on the same rows, and says whether "
           "the difference may be chance.\n\n"
           "lm is for language models: --data is a folder of shards, and what is read is its held-out part, "
           "with the paper's masks; with --json an object with the loss, accuracy and count of tokens and of "
           "sentences, and bits_per_byte.\n\n"
           "With --json, an object for each model: model, task, rows, metric, scores, intervals, classes, "
           "labels and confusion; then, with --compare, one for the difference. With --each-head one: model, "
           "rows, "
           "metric, value, layers, heads, and the value without each head.",
       .choices = evaluate_choices(),
       .options = chapters(
           {{{.name = "data",
              .letter = 'd',
              .argument = "FILE",
              .help = "rows with the right labels or answers, - is standard input; for lm shards of bertie "
                      "prepare",
              .to = &Settings::data},
             {.name = "objective",
              .argument = "NAME",
              .help = "for lm: what it learned",
              .standard = "what its heads are usually for",
              .to = &Settings::objective,
              .choices = objective_choices(false)},
             {.name = "compare", .argument = "MODEL", .help = "a second model", .to = &Settings::compare},
             {.name = "without",
              .argument = "HEADS",
              .help =
                  "for tasks: switch heads of the model off, but not of the second one: 5-3,7-1, or 5 for "
                  "all of layer 5",
              .to = &Settings::without},
             {.name = "each-head",
              .help = "for tasks: the first score with each head of the model switched off in turn",
              .to = &Settings::each},
             {.name = "metric",
              .argument = "NAME",
              .help = "score that comes first, and that --compare compares: accuracy, f1, matthews and so on",
              .standard = "the usual one for the data",
              .to = &Settings::metric},
             {.name = "bootstrap",
              .argument = "N",
              .help = "resamples for intervals and --compare; 0: no intervals",
              .standard = "1000",
              .to = &Settings::bootstrap,
              .most = 1'000'000},
             {.name = "threshold",
              .argument = "T",
              .help =
                  "for answer: how much surer than of an answer the model must be of \"none\" to give none",
              .standard = "0",
              .to = &Settings::threshold,
              .signed_number = true},
             {.name = "errors",
              .argument = "FILE",
              .help = "write the surest mistakes to FILE: a page (.html) or JSON (.json)",
              .to = &Settings::errors},
             {.name = "top",
              .argument = "K",
              .help = "mistakes in --errors",
              .standard = "100",
              .to = &Settings::top,
              .least = 1},
             {.name = "predictions",
              .argument = "FILE",
              .help = "write what was predicted to FILE, a JSON object a row",
              .to = &Settings::predictions},
             {.name = "force", .help = "replace files that are there", .to = &Settings::force}},
            labelled_data_options(),
            {precision_option(),
             {.name = "max-length",
              .argument = "N",
              .help = "tokens that are read of a text, or of a window for tag and answer",
              .standard = "the model's; for answer 384, for lm 128",
              .to = &Settings::max_length,
              .least = 8},
             {.name = "stride",
              .argument = "N",
              .help = "for answer: tokens that windows share",
              .standard = "128, at most half",
              .to = &Settings::stride},
             {.name = "max-answer",
              .argument = "N",
              .help = "for answer: tokens of an answer",
              .standard = "30",
              .to = &Settings::max_answer,
              .least = 1},
             {.name = "max-question",
              .argument = "N",
              .help = "for answer: cut questions at N tokens",
              .standard = "64",
              .to = &Settings::max_question,
              .least = 1}}}),
       .examples = {{"bertie evaluate classify -m classifier --data SST-2/dev.tsv", "scores with intervals"},
                    {"bertie evaluate tag -m ner --data eng.testb --errors mistakes.html",
                     "entities, and a page of mistakes"},
                    {"bertie evaluate pair -m large --compare small --data MRPC/dev.tsv --metric f1",
                     "is the difference chance?"},
                    {"bertie evaluate classify -m classifier --data SST-2/dev.tsv --each-head",
                     "which heads are missed"},
                    {"bertie evaluate lm -m run/best --data shards", "a language model, on held-out text"},
                    {"bertie evaluate answer -m answers --data dev-v2.0.json --threshold -1.5 --json",
                     "SQuAD 2.0, for programs"}},
       .run = evaluate_command}};
}

}  // namespace bertie::cli
