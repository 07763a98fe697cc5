// The table's chapter about training.
#include "bertie/dataset.h"
#include "bertie/train.h"
#include "cli/options.h"

namespace bertie::cli {

std::vector<Choice> objective_choices(bool pairs_of_texts) {
  std::vector<Choice> choices{{"mlm+nsp", "masked tokens, and whether sentences follow each other"},
                              {"mlm", "masked tokens alone"},
                              {"mlm+sop", "masked tokens, and whether sentences were swapped"},
                              {"causal", "the next token: GPT-2"}};
  if (pairs_of_texts)
    choices.push_back({"seq2seq", "a text from another one: the encoder-decoder Transformer"});
  return choices;
}

namespace {

constexpr std::string_view kAbout =
    "Makes a BERT from the shards that bertie prepare wrote, or goes on with one (--from): masked language "
    "modeling and next-sentence prediction as in the paper, or another --objective. docs/pretraining.md "
    "has the details.\n\n"
    "Into the folder --out go checkpoints (step-000500 and so on: each a whole model for --model and for "
    "transformers), links to the last and the best one, log.jsonl and a TensorBoard event file. Ctrl-C "
    "finishes the step, saves, and says how to go on; a second one ends at once. --resume goes on from the "
    "newest whole checkpoint, to the same bits as if the run had never stopped; where there are none at all "
    "it starts.\n\n"
    "The run ends at the first of --steps, --tokens and --time, and the learning rate follows that limit. "
    "With mpirun, ranks share each batch; give it --bind-to none --mca odls_base_sigkill_timeout 30, so "
    "that they have all cores, and time to save after Ctrl-C (docs/scaling.md).";

Option out_option(std::string_view help) {
  return {.name = "out", .letter = 'o', .argument = "DIR", .help = help, .to = &Settings::out};
}

Option resume_option() {
  return {.name = "resume", .help = "go on with the run in --out", .to = &Settings::resume};
}

Option size_option(std::string_view help) {
  return {.name = "size",
          .argument = "NAME",
          .help = help,
          .to = &Settings::model_size,
          .choices = size_choices()};
}

Option config_option() {
  return {.name = "config",
          .argument = "FILE",
          .help = "its config.json, instead of a size",
          .to = &Settings::config};
}

std::vector<Option> model_options() {
  return {
      {.name = "data",
       .letter = 'd',
       .argument = "DIR",
       .help = "shards from bertie prepare",
       .to = &Settings::data},
      out_option("folder for checkpoints and logs"),
      size_option("model to train"),
      config_option(),
      {.name = "from",
       .argument = "DIR",
       .help = "checkpoint whose weights are the start; its model too, unless --config says otherwise",
       .to = &Settings::from},
      {.name = "initial",
       .argument = "NAME",
       .help = "weights of the start, without --from",
       .standard = "random",
       .to = &Settings::initial,
       .choices = {{"random", "as in the paper"},
                   {"nearby", "random, with heads that look at words nearby: small models learn sooner"}}},
      {.name = "objective",
       .argument = "NAME",
       .help = "what is learned",
       .standard = "mlm+nsp",
       .to = &Settings::objective,
       .choices = objective_choices(true)},
      {.name = "show",
       .argument = "N",
       .help = "only show the first N sequences as the model would read them, and what was masked",
       .to = &Settings::show,
       .least = 1,
       .most = 1000},
      resume_option()};
}

std::vector<Option> limit_options(std::string_view standard) {
  return {{.name = "steps",
           .argument = "N",
           .help = "end after N steps",
           .standard = standard,
           .to = &Settings::steps,
           .least = 1,
           .most = 1'000'000'000'000},
          {.name = "tokens",
           .argument = "N",
           .help = "end after N tokens; 500M and 2G are numbers too",
           .to = &Settings::token_limit},
          {.name = "time",
           .argument = "T",
           .help = "end after a time such as 90m, 8h or 2d",
           .to = &Settings::time_limit}};
}

std::vector<Option> batch_options(std::string_view batch, std::string_view accumulate) {
  return {{.name = "batch",
           .letter = 'b',
           .argument = "N",
           .help = "sequences a step, over all ranks",
           .standard = batch,
           .to = &Settings::batch,
           .least = 1,
           .most = 10'000'000},
          {.name = "accumulate",
           .argument = "K",
           .help = "cut each rank's share of a batch into K: the same step in less memory",
           .standard = accumulate,
           .to = &Settings::accumulate,
           .least = 1,
           .most = 1'000'000},
          {.name = "dropout",
           .argument = "P",
           .help = "share of numbers to drop, of attention weights too",
           .standard = "the config's, 0.1",
           .to = &Settings::dropout,
           .example = "0.1"}};
}

Option length_option() {
  return {.name = "max-length",
          .argument = "N",
          .help = "tokens of a sequence, special ones included",
          .standard = "128",
          .to = &Settings::max_length,
          .least = 8};
}

std::vector<Option> mask_options() {
  return {{.name = "mask-rate",
           .argument = "P",
           .help = "share of tokens to mask",
           .standard = "0.15",
           .to = &Settings::mask_rate},
          {.name = "mask-rate-end",
           .argument = "P",
           .help = "the same at the end of the run, to which it goes in a straight line",
           .standard = "--mask-rate",
           .to = &Settings::mask_rate_end},
          {.name = "max-predictions",
           .argument = "N",
           .help = "mask at most N tokens of a sequence",
           .standard = "as many as --mask-rate says",
           .to = &Settings::max_predictions,
           .least = 1},
          {.name = "random-within",
           .argument = "N",
           .help = "a random second text is from a document at most N before or after the first one's: of "
                   "the same kind, and harder to tell",
           .standard = "any document",
           .to = &Settings::random_within,
           .least = 1},
          {.name = "whole-word", .help = "mask all pieces of a word, or none", .to = &Settings::whole_word}};
}

std::vector<Option> step_options(std::string_view rate, std::string_view outlier) {
  return {
      {.name = "rate",
       .argument = "R",
       .help = "highest learning rate",
       .standard = rate,
       .to = &Settings::rate,
       .example = "1e-4"},
      {.name = "warmup",
       .argument = "W",
       .help = "share of the run in which the rate rises; from 1 on, steps",
       .standard = "0.1",
       .to = &Settings::warmup},
      {.name = "schedule",
       .argument = "NAME",
       .help = "how the rate falls",
       .standard = "linear",
       .to = &Settings::schedule,
       .choices = {{"linear", "from the warm-up's end to 0", int(Schedule::kLinear)},
                   {"bert-linear", "as BERT's authors had it: the decay runs from the first step",
                    int(Schedule::kBertLinear)},
                   {"cosine", "half a cosine", int(Schedule::kCosine)},
                   {"constant", "not at all", int(Schedule::kConstant)},
                   {"stable", "at the end alone, over --cooldown", int(Schedule::kStable)}}},
      {.name = "cooldown",
       .argument = "C",
       .help = "for stable: share of the run in which the rate falls",
       .standard = "0.2",
       .to = &Settings::cooldown},
      {.name = "optimizer",
       .old_name = "optimiser",
       .argument = "NAME",
       .help = "how steps are made of gradients",
       .standard = "adamw",
       .to = &Settings::optimizer,
       .choices = {{"adamw", "as PyTorch has it", int(OptimizerMethod::kAdamW)},
                   {"bert-adam", "without bias correction, as BERT's authors had it",
                    int(OptimizerMethod::kBertAdam)},
                   {"lamb", "for large batches", int(OptimizerMethod::kLamb)},
                   {"muon", "layers' matrices by the mean gradient made orthogonal, all else as adamw",
                    int(OptimizerMethod::kMuon)}}},
      {.name = "beta2",
       .argument = "B",
       .help = "how long Adam remembers squares of gradients: less, and it forgets sooner",
       .standard = "0.999",
       .to = &Settings::beta2},
      {.name = "eps",
       .argument = "E",
       .help = "what Adam adds to their root: gradients below it make smaller steps",
       .standard = "1e-6",
       .to = &Settings::eps},
      {.name = "average",
       .argument = "B",
       .help =
           "measure and save a running mean of the weights: after each step B of what it was and the rest of "
           "what they are (0.999: of some last 1,000 steps)",
       .standard = "the weights themselves",
       .to = &Settings::average},
      {.name = "decay",
       .argument = "D",
       .help = "weight decay, not of biases and norms",
       .standard = "0.01",
       .to = &Settings::decay},
      {.name = "clip",
       .argument = "C",
       .help = "largest norm of the gradient; 0: no limit",
       .standard = "1",
       .to = &Settings::clip},
      {.name = "outlier",
       .argument = "F",
       .help = "skip a step whose gradient is F times as long as usual; 0: never",
       .standard = outlier,
       .to = &Settings::outlier}};
}

std::vector<Option> held_out_options() {
  return {
      {.name = "eval-every",
       .argument = "N",
       .help = "evaluate on the held-out shards every N steps; 0: never",
       .standard = "500",
       .to = &Settings::eval_every},
      {.name = "eval-sequences",
       .argument = "N",
       .help = "sequences of an evaluation, spread over the held-out shards; 0: all",
       .standard = "1024",
       .to = &Settings::eval_sequences},
      {.name = "watch",
       .argument = "TEXT",
       .help =
           "fill the masks of this text, and of others that are given so, at each evaluation: they go into "
           "log.jsonl",
       .to = &Settings::watch}};
}

std::vector<Option> care_options() {
  return {{.name = "patience",
           .argument = "N",
           .help = "end after N evaluations without a better result",
           .standard = "never",
           .to = &Settings::patience,
           .least = 1},
          {.name = "save-every",
           .argument = "N",
           .help = "a checkpoint every N steps, or after a time such as 10m",
           .standard = "10m",
           .to = &Settings::save_every},
          {.name = "keep",
           .argument = "N",
           .help = "keep the last N checkpoints, and the best one",
           .standard = "2",
           .to = &Settings::keep,
           .least = 1},
          {.name = "log-every",
           .argument = "N",
           .help = "a line in the logs every N steps",
           .standard = "10",
           .to = &Settings::log_every,
           .least = 1},
          {.name = "bf16",
           .help = "products of bf16, sums of fp32: faster on CPUs that have them (AVX512_BF16, AMX)",
           .to = &Settings::bf16},
          {.name = "recompute",
           .help = "compute layers again in the backward pass: less memory, more time",
           .to = &Settings::recompute},
          {.name = "seed",
           .argument = "N",
           .help = "the same seed gives the same run, to the bit",
           .standard = "1",
           .to = &Settings::seed}};
}

constexpr std::string_view kAboutFinetune =
    "Makes a classifier, a tagger or a question answerer from a pre-trained model and labelled rows. The "
    "defaults suit 400 rows as well as 400,000. docs/finetuning.md has the formats of data and every "
    "detail.\n\n"
    "--train takes CSV, TSV (GLUE's as they come), JSON lines, CoNLL columns or SQuAD's JSON, plain or "
    "packed; what was recognized is said. Without --dev a tenth of the rows is taken out to measure with. "
    "The checkpoint that is best there goes to --out: weights, tokenizer, labels, metrics.json and a "
    "README.md, for --model and for transformers.\n\n"
    "Ctrl-C finishes the step, saves, and says how to go on: --resume does, to the same bits. --seeds 5 "
    "trains five times, gives mean and deviation, and keeps the best. With mpirun, ranks share each batch.";

std::vector<Option> task_data_options() {
  return {
      {.name = "train", .argument = "FILE", .help = "rows to learn from", .to = &Settings::train_file},
      {.name = "dev",
       .argument = "FILE",
       .help = "rows to measure with",
       .standard = "some of --train",
       .to = &Settings::dev_file},
      out_option("folder for the model"),
      resume_option(),
      {.name = "dev-share",
       .argument = "P",
       .help = "share of --train to measure with, where there is no --dev; 0: none",
       .standard = "0.1, at most 2000 rows",
       .to = &Settings::dev_share},
      {.name = "max-length",
       .argument = "N",
       .help = "tokens of a sequence, special ones included; longer ones are cut, for tag and answer they go "
               "in windows",
       .standard = "the model's; for answer 384",
       .to = &Settings::max_length,
       .least = 8},
      {.name = "stride",
       .argument = "N",
       .help = "tokens that windows share",
       .standard = "128",
       .to = &Settings::stride}};
}

std::vector<Option> head_options() {
  return {
      {.name = "epochs",
       .argument = "E",
       .help = "how often each row is seen",
       .standard = "3; more below 10,000 rows: up to 20, or 100 steps",
       .to = &Settings::epochs},
      {.name = "seeds",
       .argument = "N",
       .help = "train N times with other seeds and keep the best",
       .standard = "1",
       .to = &Settings::seeds,
       .least = 1,
       .most = 1000},
      {.name = "metric",
       .argument = "NAME",
       .help = "score that says which checkpoint is the best: accuracy, f1, matthews, pearson and so on",
       .standard = "the task's first; for numbers r2",
       .to = &Settings::metric},
      {.name = "freeze",
       .argument = "N",
       .help = "leave embeddings and the first N layers as they are: faster, for little data",
       .standard = "all learn",
       .to = &Settings::freeze,
       .example = "6"},
      {.name = "layer-decay",
       .argument = "D",
       .help = "each layer learns with D times the rate of the one above it",
       .standard = "1",
       .to = &Settings::layer_decay},
      {.name = "balance-classes", .help = "rare classes count for more", .to = &Settings::balance_classes},
      {.name = "label-smoothing",
       .argument = "P",
       .help = "share of each target that goes to all classes alike",
       .standard = "0",
       .to = &Settings::label_smoothing},
      {.name = "fresh-head",
       .help = "begin with a fresh head even where the model has one for these labels",
       .to = &Settings::fresh_head},
      {.name = "baseline",
       .help = "train simpler models on the same rows first, and print them beside this one: TF-IDF, word "
               "vectors, a BiLSTM; for tag the most frequent tag and a BiLSTM",
       .to = &Settings::baseline},
      {.name = "eval-every",
       .argument = "N",
       .help = "measure every N steps",
       .standard = "once an epoch, more often in long ones",
       .to = &Settings::eval_every,
       .least = 1}};
}

constexpr std::string_view kAboutDistill =
    "Makes a small model, the student, say what a large one, its teacher, says (docs/distillation.md). For a "
    "task the teacher is a model that bertie finetune made; the student learns from its probabilities "
    "for every row, softened by --temperature, and from the labels. What the teacher says is computed once "
    "and kept in --out. --unlabeled brings rows that have no labels, plain text too; with it --train may be "
    "missing.\n\n"
    "For lm the teacher is a language model, and the student learns from --data, shards of bertie "
    "prepare with the teacher's tokenizer, as DistilBERT did: from the teacher's words, from the masked "
    "tokens, and from where the teacher's hidden states point. The teacher reads each batch as it comes.\n\n"
    "Without --model the student begins as some of the teacher's layers: half of them, or --layers. For lm "
    "it may be a fresh one of another --size or --config.";

std::vector<Option> teacher_options() {
  return {{.name = "teacher",
           .argument = "MODEL",
           .help = "the large model: a folder or a name",
           .to = &Settings::teacher},
          {.name = "layers",
           .argument = "N",
           .help = "layers of the teacher that the student begins with: how many, or which, as 0,2,4,7,9,11",
           .standard = "half of them, spread evenly",
           .to = &Settings::layers},
          {.name = "unlabeled",
           .old_name = "unlabelled",
           .argument = "FILE",
           .help = "rows without labels: a table, or plain text, a row a line",
           .to = &Settings::unlabeled_file},
          {.name = "data",
           .letter = 'd',
           .argument = "DIR",
           .help = "lm: shards from bertie prepare",
           .to = &Settings::data},
          {.name = "temperature",
           .argument = "T",
           .help = "what logits are divided by: the higher, the more the student hears of what is unlikely",
           .standard = "2",
           .to = &Settings::temperature},
          {.name = "soft-weight",
           .argument = "W",
           .help = "of what the teacher says, in the loss",
           .standard = "0.5; for lm 5",
           .to = &Settings::soft_weight},
          {.name = "hard-weight",
           .argument = "W",
           .help = "of the labels, or of the masked tokens",
           .standard = "0.5; for lm 2",
           .to = &Settings::hard_weight},
          {.name = "hidden-weight",
           .argument = "W",
           .help = "lm: of the angle between last hidden states",
           .standard = "1",
           .to = &Settings::hidden_weight},
          {.name = "objective",
           .argument = "NAME",
           .help = "lm: what is learned from the text itself, beside the teacher",
           .standard = "mlm, or causal as the teacher",
           .to = &Settings::objective,
           .choices = objective_choices(false)},
          size_option("lm: a fresh student of this size"),
          config_option()};
}

std::vector<Choice> student_choices() {
  std::vector<Choice> choices = task_choices();
  choices.push_back({"lm", "a language model, to be fine-tuned later", kLanguageModel});
  return choices;
}

}  // namespace

std::vector<Command> train_commands() {
  return {
      {.name = "pretrain",
       .words = "",
       .most_words = 0,
       .summary = "make a BERT from prepared text",
       .about = kAbout,
       .options = chapters({model_options(),
                            limit_options("20000, where there is no other limit"),
                            batch_options("64", "1"),
                            {length_option()},
                            mask_options(),
                            step_options("0.128 / hidden size: 1e-3 for tiny", "20"),
                            held_out_options(),
                            care_options()}),
       .examples = {{"bertie pretrain --data shards --size tiny --out run", "a small one, to begin with"},
                    {"bertie pretrain --data shards --size mini --time 8h --out run", "over night"},
                    {"bertie pretrain --data shards --size mini --time 8h --out run --resume",
                     "go on with it"},
                    {"mpirun -np 8 --bind-to none bertie pretrain -d shards --size base -o run",
                     "on many machines"}},
       .run = pretrain_command},
      {.name = "finetune",
       .words = "KIND",
       .most_words = 1,
       .summary = "make a classifier, tagger or answerer from labelled rows",
       .about = kAboutFinetune,
       .choices = task_choices(),
       .options = chapters({task_data_options(), labelled_data_options(), head_options(),
                            limit_options("as --epochs says"),
                            batch_options("16; 32 from 10,000 rows on", "as memory asks for"),
                            step_options("0.023 / hidden size: 3e-5 for base", "0"), care_options()}),
       .examples = {{"bertie finetune classify -m bert-base-uncased --train reviews.csv -o classifier",
                     "from a table with a text and a label"},
                    {"bertie finetune pair -m bert-base-uncased --train MRPC/train.tsv --dev MRPC/dev.tsv "
                     "--seeds 3 -o paraphrases",
                     "GLUE, the best of three"},
                    {"bertie finetune tag -m bert-base-cased --train eng.train --dev eng.testa -o ner",
                     "entities"},
                    {"bertie finetune answer -m bert-base-uncased --train train-v1.1.json -o answers",
                     "SQuAD"}},
       .run = finetune_command},
      {.name = "distill",
       .words = "KIND",
       .most_words = 1,
       .summary = "make a small model that says what a large one says",
       .about = kAboutDistill,
       .choices = student_choices(),
       .options = chapters({teacher_options(), mask_options(), task_data_options(), labelled_data_options(),
                            head_options(), limit_options("as --epochs says; lm: 20000"),
                            batch_options("16; 32 from 10,000 rows on; lm: 64", "as memory asks for; lm: 1"),
                            step_options("0.023 / hidden size; lm: 0.128 / hidden size", "0; lm: 20"),
                            care_options()}),
       .examples =
           {{"bertie distill classify --teacher sst2-base --train SST-2/train.tsv --layers 4 -o small",
             "a third of the layers"},
            {"bertie distill tag --teacher ner-base --unlabeled news.txt --dev eng.testa -o small",
             "from text alone"},
            {"bertie distill lm --teacher bert-base-uncased --data shards --time 8h -o distilled",
             "as DistilBERT was made"}},
       .run = distill_command}};
}

}  // namespace bertie::cli
