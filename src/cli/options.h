#pragma once
// The command line, said once: one table of commands and options makes the parser, the help, the man page,
// docs/cli.md and the completion scripts.
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bertie/error.h"
#include "bertie/nearest.h"

namespace bertie::cli {

// The command line is wrong, not a file or a model: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

enum class PoolingKind { kCls, kMean, kMax, kMeanSqrtLength };

// Everything that may be set on the command line. What was not set is empty.
struct Settings {
  std::string command;             // its name
  std::vector<std::string> words;  // what is neither an option nor the command
  int first_word = 0;              // its value, where it is a choice

  std::optional<std::string> model;
  std::optional<size_t> threads;
  std::optional<int> precision;  // WeightFormat
  bool json = false, quiet = false, verbose = false, help = false, version = false;

  std::vector<std::string> files;
  std::optional<std::string> pair, vocab, npy, query;
  std::optional<std::string> part;  // of several processes; `out`, `resume` and `force` are below
  std::optional<int> pooling;       // vectors: PoolingKind
  bool normalize = false, windows = false;
  std::optional<std::string> prefix, query_prefix, index;
  std::optional<int> numbers;                 // VectorNumbers
  std::optional<std::string> html, svg, png;  // attend
  std::optional<size_t> max_length, stride, layer, head, top;
  bool cased = false, ids = false, no_special = false, plain_specials = false;

  std::vector<std::string> targets;  // tasks
  std::optional<std::string> context;
  std::optional<int> group, apply;  // Aggregation, Apply
  std::optional<std::string> column, column_pair;
  std::optional<int> format;  // ResultFormat; with kJson, `json` is set too
  std::optional<size_t> max_answer, max_question, max_new_tokens, top_k, seed;
  std::optional<double> temperature, top_p, repetition_penalty;
  bool keep_outside = false, may_be_empty = false;

  std::optional<std::string> shape;  // bench
  std::optional<double> seconds;
  std::vector<std::string> mechanisms;
  std::optional<size_t> n, max_n, heads, head_size;
  bool forward = false;

  std::optional<std::string> config;  // convert
  std::optional<int> dtype;           // Precision
  std::vector<std::string> drop;
  bool drop_unknown = false, force = false;

  std::optional<std::string> out, field;  // vocab, prepare
  std::optional<size_t> size, min_frequency, alphabet_limit, shard_size;
  std::optional<double> held_out;
  bool strict = false;

  std::optional<std::string> data, from, initial, model_size, objective;  // pretrain
  std::vector<std::string> watch;
  std::optional<size_t> show;
  std::vector<std::string> runs;           // serve, view
  std::optional<int> schedule, optimizer;  // Schedule, OptimizerMethod
  std::optional<std::string> time_limit, token_limit, save_every;
  std::optional<size_t> batch, accumulate, steps, eval_every, eval_sequences, max_predictions, random_within,
      keep, patience, log_every;
  std::optional<double> rate, warmup, cooldown, beta2, average, eps, decay, clip, outlier, dropout, mask_rate,
      mask_rate_end;
  bool resume = false, recompute = false, bf16 = false, whole_word = false;

  std::optional<std::string> compare, errors, predictions;  // evaluate
  std::optional<size_t> bootstrap;
  std::optional<double> threshold;

  std::optional<std::string> metric, label;  // labelled data
  std::optional<int> problem;                // Problem
  bool skip_bad = false;

  std::optional<std::string> train_file, dev_file;  // finetune
  std::optional<double> epochs, dev_share, layer_decay, label_smoothing;
  std::optional<size_t> seeds, freeze;
  bool balance_classes = false, fresh_head = false, baseline = false;

  std::optional<std::string> without, gradient, head_list, gap;  // heads
  std::optional<size_t> mask, ablate;
  std::optional<double> share;
  bool rollout = false, no_random = false, each = false;

  std::optional<std::string> teacher, layers, unlabeled_file;  // distill
  std::optional<double> soft_weight, hard_weight, hidden_weight;

  std::optional<std::string> address, keys, cors;  // serve
  std::optional<size_t> port, max_body, max_connections, max_connections_per_address, queue, batch_tokens,
      max_inputs, max_tokens, max_top_k;
  std::optional<double> request_timeout, idle_timeout, write_timeout, queue_timeout, drain_timeout;
  bool log = false, no_open = false;

  bool man = false, markdown = false;  // help

  std::vector<std::string> arguments;  // all of them, as they were given
};

// A word that an argument may be, and what it means: to the reader, and to the command (an enumerator).
struct Choice {
  std::string_view word, help;
  int value = 0;
};

enum class Benchmark { kEncode, kGenerate, kPretrain, kAttention, kLoad, kTokenize, kGemm };
enum class ResultFormat { kJson, kCsv, kTsv };
inline constexpr int kLanguageModel = 100;  // beside the numbers of TaskKind
enum class Shell { kBash, kZsh, kFish };

struct Option {
  using Target =
      std::variant<bool Settings::*, std::optional<size_t> Settings::*, std::optional<double> Settings::*,
                   std::optional<std::string> Settings::*, std::vector<std::string> Settings::*,
                   std::optional<int> Settings::*>;  // the last one: a choice's value
  std::string_view name;
  std::string_view old_name = {};  // that is still taken, and not told
  char letter = 0;
  std::string_view argument = {};  // empty for a switch; FILE and DIR complete as such
  std::string_view help = {};
  std::string_view standard = {};          // what holds when it is not given, as help shows it
  Target to;                               // says the argument's type; a list may be given again and again
  size_t least = 0, most = 1'000'000'000;  // of a number
  bool signed_number = false;              // as far below 0 as above
  std::string_view example = {};           // a number that makes sense, where the standard is not one
  std::vector<Choice> choices = {};        // the parser takes no other words,
  bool takes_other_words = false;          // unless this says so: then they are suggestions
};

struct Example {
  std::string_view command, what;
};

struct Command {
  std::string_view name;
  std::string_view words;  // in the usage line: "[TEXT...]"
  size_t most_words;
  std::string_view summary;          // one line
  std::string_view about;            // paragraphs, separated by an empty line
  std::vector<Choice> choices = {};  // for the first word, where it is one of a few
  std::vector<Option> options = {};
  std::vector<Example> examples = {};
  int (*run)(const Settings&);
  bool variables = false;  // options that are not given come from the environment: --port from BERTIE_PORT
};

const std::vector<Command>& commands();
std::vector<Command> task_commands();  // parts of them
std::vector<Command> data_commands();
std::vector<Command> train_commands();
std::vector<Command> evaluate_commands();
std::vector<Command> serve_commands();
std::vector<Command> heads_commands();
std::vector<Choice> objective_choices(bool pairs_of_texts);  // of pre-training
std::vector<Choice> task_choices();                          // kinds of tasks to train and to evaluate for
std::vector<Option> labelled_data_options();                 // columns, what labels are, bad rows
std::vector<Option> chapters(std::initializer_list<std::vector<Option>> all);  // one list of several
Option file_option();                                                          // --file
Option table_file_option();            // the same for commands that read tables too,
Option column_option();                // with --column
Option format_option();                // --format
std::vector<Option> vector_options();  // --pooling, --normalize, --prefix, --windows
Option force_option();                 // --force, of commands that write files
std::vector<Option> result_options();  // --out, --resume, --force, --part: of commands with a result an input
Option without_option();               // --without, of commands that take a model without some heads
Option rollout_option(), gradient_option(), mask_option();  // of attend
Option cut_option(size_t least = 3);                        // --max-length, of commands that cut texts
// --precision, of commands that load a model
Option precision_option(
    std::string_view help = "how layers' weights are held in memory; bf16 takes half of it, and rounds them");
std::vector<Choice> size_choices();  // of models to train
const std::vector<Option>& global_options();
const std::vector<Choice>& environment();  // variables that Bertie looks at
const std::vector<Choice>& exit_codes();

const Command& command_named(
    std::string_view name);  // throws UsageError, with the nearest, where there is none

struct Invocation {
  const Command* command = nullptr;  // null: none was named
  Settings settings;
};

// Throws UsageError, with the nearest right name for a wrong one. Stops at --help and --version.
Invocation parse(const std::vector<std::string>& arguments);

// Whether all of a text is a number, and which. Any other text ("5m") leaves `value` as it was.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  value = number;
  return true;
}

// The options that hold within a command: its own, then the general ones that it does not give a meaning of
// its own.
std::vector<Option> options_of(const Command& command);
std::vector<std::string_view> words_of(const std::vector<Choice>& choices);
// Whether its argument is a path (or a model's name), and whether it was given.
bool names_file(const Option& option);
bool is_given(const Option& option, const Settings& settings);
// "BERTIE_MAX_LENGTH"
std::string variable_of(const Option& option);
// "--max-length N"
std::string spelling(const Option& option);

// The commands. Each returns the exit code, and throws Error.
int tokenize_command(const Settings& settings);
int embed_command(const Settings& settings);
int similar_command(const Settings& settings);
int index_command(const Settings& settings);
int fill_mask_command(const Settings& settings);
int next_sentence_command(const Settings& settings);
int score_command(const Settings& settings);
int senses_command(const Settings& settings);
int classify_command(const Settings& settings);
int pair_command(const Settings& settings);
int tag_command(const Settings& settings);
int answer_command(const Settings& settings);
int generate_command(const Settings& settings);
int serve_command(const Settings& settings);
int view_command(const Settings& settings);
int attend_command(const Settings& settings);
int explain_command(const Settings& settings);
int heads_command(const Settings& settings);
int prune_command(const Settings& settings);
int quantize_command(const Settings& settings);
int info_command(const Settings& settings);
int demo_command(const Settings& settings);
int pull_command(const Settings& settings);
int models_command(const Settings& settings);
int bench_command(const Settings& settings);
int convert_command(const Settings& settings);
int vocab_command(const Settings& settings);
int prepare_command(const Settings& settings);
int pretrain_command(const Settings& settings);
int finetune_command(const Settings& settings);
int distill_command(const Settings& settings);
int evaluate_command(const Settings& settings);
int help_command(const Settings& settings);
int completion_command(const Settings& settings);

}  // namespace bertie::cli
