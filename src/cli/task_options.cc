// The table's chapter about tasks: what can be done with texts and a checkpoint that was trained for it.
#include "bertie/results.h"
#include "bertie/vector_index.h"
#include "cli/options.h"

namespace bertie::cli {
namespace {

Option pair_file() {
  return {.name = "file",
          .letter = 'f',
          .argument = "FILE",
          .help =
              "read pairs from FILE, one a line: two texts with a tab between them, or a JSON object with "
              "\"text\" and \"text_pair\"; - is standard input; may be given again",
          .to = &Settings::files};
}

Option pair_table_file() {
  Option option = pair_file();
  option.help =
      "read pairs from FILE: two columns of a table (.csv, .tsv, .jsonl, .json), or a pair a line: two texts "
      "with a tab between them, or a JSON object with \"text\" and \"text_pair\"; packed or not; - is "
      "standard input; may be given again";
  return option;
}

Option first_column(std::string_view help) {
  Option option = column_option();
  option.help = help;
  return option;
}

Option second_column(std::string_view help) {
  return {.name = "column-pair",
          .argument = "NAME",
          .help = help,
          .standard = "found by usual names",
          .to = &Settings::column_pair};
}

Option apply() {
  return {.name = "apply",
          .argument = "F",
          .help = "how numbers become scores",
          .standard = "by-problem",
          .to = &Settings::apply,
          .choices = {{"by-problem", "what the model was trained for", int(Apply::kByProblem)},
                      {"softmax", "one of the labels is right", int(Apply::kSoftmax)},
                      {"sigmoid", "each label is right or wrong by itself", int(Apply::kSigmoid)},
                      {"nothing", "the numbers as they are", int(Apply::kNothing)}}};
}

Option top(std::string_view help, std::string_view standard) {
  return {
      .name = "top", .argument = "K", .help = help, .standard = standard, .to = &Settings::top, .least = 1};
}

}  // namespace

std::vector<Command> task_commands() {
  return {
      {.name = "index",
       .words = "TO",
       .most_words = 1,
       .summary = "embed texts once, to search them as often as one likes",
       .about =
           "Embeds each line of each FILE, or of standard input, and writes the vectors and the texts into "
           "the folder "
           "TO, which bertie similar --index searches: every vector is compared, in place, without loading "
           "it. A "
           "FILE may be a table (.csv, .tsv, .jsonl, .json).\n\n"
           "float16 takes two bytes a number and rounds cosines in the fourth place, int8 one byte and in "
           "the "
           "third. A run that was ended goes on with --resume and the same options, and leaves the same "
           "bytes. An empty "
           "line is a text too, and one that fails has a vector of zeros, so that rows and lines agree.\n\n"
           "The files are for NumPy, too: vectors.npy, and for int8 scales.npy.",
       .options = chapters(
           {{table_file_option(),
             column_option(),
             {.name = "numbers",
              .argument = "FORMAT",
              .help = "how vectors are kept",
              .standard = "float16",
              .to = &Settings::numbers,
              .choices = {{"float16", "two bytes a number", int(VectorNumbers::kFloat16)},
                          {"int8", "one byte, and a scale for each vector", int(VectorNumbers::kInt8)}}},
             {.name = "resume", .help = "go on with what was begun in TO", .to = &Settings::resume}},
            vector_options(),
            {cut_option(), precision_option()}}),
       .examples = {{"bertie index -m all-MiniLM-L6-v2 library --file texts.txt", "a line a text"},
                    {"bertie similar --index library --query \"a sunny day\"", "the ten nearest of them"},
                    {"bertie index -m all-MiniLM-L6-v2 reviews --file reviews.csv --column review --numbers "
                     "int8 --resume",
                     "a column, in little room, wherever it was stopped"}},
       .run = index_command},
      {.name = "similar",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "how alike texts are, and which is most like a query",
       .about =
           "With --query, ranks each TEXT, each line of each FILE, or each line of standard input by the "
           "cosine of its vector with the query's. Any number of texts will do: the best ones alone are "
           "kept. Without --query, compares up to 100 texts with each other.\n\n"
           "Vectors are those of bertie embed; with --index, those that bertie index has saved, and the "
           "query goes "
           "through the model they were made with unless --model says another. Each TEXT or line is a query "
           "then, too.",
       .options = chapters({{file_option(),
                             {.name = "query",
                              .argument = "TEXT",
                              .help = "text that the others are compared with",
                              .to = &Settings::query},
                             {.name = "query-prefix",
                              .argument = "TEXT",
                              .help = "goes before the query: \"query: \"",
                              .to = &Settings::query_prefix},
                             {.name = "index",
                              .argument = "DIR",
                              .help = "search what bertie index has saved there",
                              .to = &Settings::index},
                             top("print the K best", "10")},
                            vector_options(),
                            {cut_option(4), precision_option()}}),
       .examples = {{"bertie similar -m all-MiniLM-L6-v2 --query \"a sunny day\" --file texts.txt",
                     "the ten nearest lines"},
                    {"bertie similar --index library --query \"a sunny day\" --top 3",
                     "of a million texts, in no time"},
                    {"bertie similar -m all-MiniLM-L6-v2 \"A cat.\" \"A kitten.\" \"A car.\"",
                     "all with all"}},
       .run = similar_command},
      {.name = "fill-mask",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "what stands at [MASK]?",
       .about =
           "Gives the likeliest tokens for every mask of each TEXT, each line of each FILE, or each line of "
           "standard input. The mask is [MASK] for BERT, DistilBERT and ALBERT and <mask> for RoBERTa. "
           "Several masks are filled each by itself.\n\n"
           "With --json, an object a text: index, text, and masks with token, score, id and sequence.",
       .options = chapters({{file_option(),
                             top("candidates for each mask", "5"),
                             {.name = "target",
                              .argument = "WORD",
                              .help = "only this word, and others that are given so, are candidates",
                              .to = &Settings::targets},
                             cut_option(4),
                             without_option(),
                             precision_option()},
                            result_options()}),
       .examples = {{"bertie fill-mask -m bert-base-uncased \"Paris is the [MASK] of France.\"",
                     "five candidates"},
                    {"bertie fill-mask -m bert-base-uncased --target city --target capital --file texts.txt",
                     "two words compared"}},
       .run = fill_mask_command},
      {.name = "score",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "how likely a text is, and which words surprise",
       .about =
           "Says how likely each token of each TEXT, each line of each FILE, or each line of standard input "
           "is where it stands: for models with masks each token is masked in turn (the "
           "pseudo-log-likelihood), for GPT-2 it is judged by those before it. One text shows every token "
           "and what would have been likelier; several TEXTs are ranked, the likeliest first; of a FILE "
           "the perplexity of each line and of all. Words with a chance below one in a thousand are "
           "marked where something else is 100 times as likely. A FILE may be a table (.csv, .tsv, .jsonl, "
           ".json).\n\n"
           "With --json, an object a text: index, text, log_probability, perplexity and scores, a token "
           "each.",
       .options = chapters(
           {{table_file_option(), column_option(), cut_option(4), precision_option()}, result_options()}),
       .examples = {{"bertie score -m bert-base-uncased \"The man bit the dog.\"", "token by token"},
                    {"bertie score -m bert-base-uncased \"He eats an apple.\" \"He eat an apple.\"",
                     "which is likelier?"},
                    {"bertie score -m gpt2 --file text.txt", "a file's perplexity"}},
       .run = score_command},
      {.name = "next-sentence",
       .words = "[TEXT TEXT]",
       .most_words = 2,
       .summary = "does a sentence follow another?",
       .about =
           "Says how likely the second TEXT follows the first (BERT), or that the two stand in the right "
           "order (ALBERT).\n\n"
           "With --json, an object a pair: index, a, b and is_next, a probability.",
       .options = chapters({{pair_file(), cut_option(4), precision_option()}, result_options()}),
       .examples = {{"bertie next-sentence -m bert-base-uncased \"It rained.\" \"We got wet.\"", "one pair"},
                    {"bertie next-sentence -m bert-base-uncased --json --file pairs.tsv", "a file of pairs"}},
       .run = next_sentence_command},
      {.name = "classify",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "labels of texts: sentiment, topic and the like",
       .about = "Gives the labels of each TEXT, each line of each FILE, or each line of standard input, "
                "with the names that the model has for them. One text shows all labels, many the best one "
                "each; --top says otherwise. A FILE may be a table (.csv, .tsv, .jsonl, .json).\n\n"
                "With --json, an object a text: index, text, and labels with label and score, best first. "
                "With --format csv, a row for each label that is shown: index, text, label, score.",
       .options = chapters({{table_file_option(), column_option(), format_option(),
                             top("show the K best labels", "all for one text, 1 for many"), apply(),
                             cut_option(4), without_option(), precision_option()},
                            result_options()}),
       .examples = {{"bertie classify -m distilbert-sst2 \"A fine film.\"", "one text"},
                    {"bertie classify -m distilbert-sst2 --json < reviews.txt > labels.jsonl", "many"},
                    {"bertie classify -m distilbert-sst2 --file reviews.csv --column review --format csv",
                     "a column of a table, and a table"}},
       .run = classify_command},
      {.name = "pair",
       .words = "[TEXT TEXT]",
       .most_words = 2,
       .summary = "labels of pairs: entailment, paraphrase, similarity",
       .about = "Gives the labels of two texts together, for models that were trained on pairs.\n\n"
                "With --json, an object a pair: index, a, b, and labels with label and score. With --format "
                "csv, a row for each label that is shown: index, a, b, label, score.",
       .options = chapters(
           {{pair_table_file(),
             first_column("column of the first text, by name or number from 1; FILE is a table then"),
             second_column("column of the second text"), format_option(),
             top("show the K best labels", "all for one pair, 1 for many"), apply(), cut_option(4),
             precision_option()},
            result_options()}),
       .examples = {{"bertie pair -m roberta-mnli \"A man sleeps.\" \"Somebody is awake.\"", "one pair"},
                    {"bertie pair -m roberta-mnli --file pairs.jsonl", "a file of pairs"},
                    {"bertie pair -m roberta-mnli --file RTE/dev.tsv --format tsv",
                     "GLUE's files as they come"}},
       .run = pair_command},
      {.name = "tag",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "names, places and other entities, marked in the text",
       .about =
           "Finds the entities of each TEXT, each line of each FILE, or each line of standard input. "
           "Places count code points. A text that is longer than the model takes goes in windows that "
           "overlap; nothing is left out. A FILE may be a table (.csv, .tsv, .jsonl, .json) or have CoNLL's "
           "columns: a sentence's words are joined with spaces.\n\n"
           "With --json, an object a text: index, text, and entities with label, score, text, word, "
           "start, end, first_token and token_count. With --format csv, a row for each entity: index, "
           "label, score, text, start, end.",
       .options = chapters(
           {{table_file_option(),
             column_option(),
             format_option(),
             {.name = "group",
              .argument = "HOW",
              .help = "how pieces become entities",
              .standard =
                  "first for a model that learned labels of first pieces, as by finetune; else simple",
              .to = &Settings::group,
              .choices = {{"none", "every piece by itself", int(Aggregation::kNone)},
                          {"simple", "neighbors with the same label", int(Aggregation::kSimple)},
                          {"first", "a word has its first piece's label", int(Aggregation::kFirst)},
                          {"average", "a word has the label of its pieces' mean scores",
                           int(Aggregation::kAverage)},
                          {"max", "a word has the label of its surest piece", int(Aggregation::kMax)}}},
             {.name = "keep-outside",
              .help = "also what is no entity (label O)",
              .to = &Settings::keep_outside},
             {.name = "stride",
              .argument = "N",
              .help = "tokens that windows of a long text share",
              .standard = "64, or a quarter of --max-length",
              .to = &Settings::stride},
             {.name = "max-length",
              .argument = "N",
              .help = "tokens of a window, special ones included",
              .standard = "the model's",
              .to = &Settings::max_length,
              .least = 4},
             precision_option()},
            result_options()}),
       .examples = {{"bertie tag -m bert-base-ner \"Anna Lindqvist came to Gothenburg.\"", "one text"},
                    {"bertie tag -m bert-base-ner --group first --json --file articles.txt",
                     "words whole, for programs"},
                    {"bertie tag -m bert-base-ner --file eng.testa --format csv",
                     "CoNLL's sentences, a table"}},
       .run = tag_command},
      {.name = "answer",
       .words = "[QUESTION [CONTEXT]]",
       .most_words = SIZE_MAX,
       .summary = "finds the answer to a question in a text",
       .about =
           "Cuts the answer to QUESTION out of CONTEXT, or out of a file with --context: then every word "
           "and every line is a question about it. A long context goes in windows.\n\n"
           "With --json, an object a question: index, question, and answers with answer, score, start and "
           "end in code points of the context. With --format csv, a row for each answer: index, question, "
           "answer, score, start, end.",
       .options = chapters(
           {{{.name = "file",
              .letter = 'f',
              .argument = "FILE",
              .help = "read questions from FILE: SQuAD's JSON, two columns of a table (.csv, .tsv, "
                      ".jsonl), or a question a line: question and context with a tab between them, or "
                      "a JSON object with \"question\" and \"context\"; with --context, questions "
                      "alone; packed or not; - is standard input",
              .to = &Settings::files},
             first_column("column of the question, by name or number from 1; FILE is a table then"),
             second_column("column of the context"),
             format_option(),
             {.name = "context",
              .letter = 'c',
              .argument = "FILE",
              .help = "file that holds the context",
              .to = &Settings::context},
             top("the K best answers", "1"),
             {.name = "may-be-empty",
              .help = "\"there is no answer\" competes, for models that learned it (SQuAD 2.0)",
              .to = &Settings::may_be_empty},
             {.name = "max-answer",
              .argument = "N",
              .help = "tokens of an answer",
              .standard = "15",
              .to = &Settings::max_answer,
              .least = 1},
             {.name = "max-question",
              .argument = "N",
              .help = "cut questions at N tokens",
              .standard = "64",
              .to = &Settings::max_question,
              .least = 1},
             {.name = "max-length",
              .argument = "N",
              .help = "tokens of a window, question included",
              .standard = "384",
              .to = &Settings::max_length,
              .least = 4},
             {.name = "stride",
              .argument = "N",
              .help = "tokens that windows share",
              .standard = "128, or half a window",
              .to = &Settings::stride},
             precision_option()},
            result_options()}),
       .examples =
           {{"bertie answer -m distilbert-squad \"Who came?\" \"Anna came to Gothenburg.\"", "one question"},
            {"bertie answer -m distilbert-squad --top 3 \"Who came?\" --context book.txt", "about a file"},
            {"bertie answer -m distilbert-squad --json --file questions.jsonl", "many"},
            {"bertie answer -m distilbert-squad --file dev-v1.1.json --format csv", "SQuAD's questions"}},
       .run = answer_command},
      {.name = "generate",
       .words = "[PROMPT...]",
       .most_words = SIZE_MAX,
       .summary = "continues a text, word by word",
       .about =
           "Continues each PROMPT, each line of each FILE, or each line of standard input, and shows the "
           "text as it grows. Greedy unless --temperature, --top-k, --top-p or --seed ask for drawing; the "
           "same seed draws the same text everywhere.\n\n"
           "With --json, an object a prompt: index, text, generated, ids, finish_reason, prompt_tokens and "
           "prompt_truncated.",
       .options = chapters({{file_option(),
                             {.name = "max-new-tokens",
                              .letter = 'n',
                              .argument = "N",
                              .help = "stop after N tokens",
                              .standard = "50",
                              .to = &Settings::max_new_tokens},
                             {.name = "temperature",
                              .argument = "X",
                              .help = "below 1 surer, above 1 wilder; 0 is greedy",
                              .standard = "0, or 1 with the options below",
                              .to = &Settings::temperature},
                             {.name = "top-k",
                              .argument = "K",
                              .help = "draw from the K likeliest tokens",
                              .to = &Settings::top_k},
                             {.name = "top-p",
                              .argument = "P",
                              .help = "draw from the likeliest tokens that together have probability P",
                              .to = &Settings::top_p},
                             {.name = "seed",
                              .argument = "N",
                              .help = "what is drawn",
                              .standard = "1",
                              .to = &Settings::seed},
                             {.name = "repetition-penalty",
                              .argument = "X",
                              .help = "above 1: what was said is less likely to be said again",
                              .standard = "1",
                              .to = &Settings::repetition_penalty},
                             {.name = "max-length",
                              .argument = "N",
                              .help = "read at most N tokens, prompt included",
                              .standard = "the model's",
                              .to = &Settings::max_length,
                              .least = 4},
                             precision_option()},
                            result_options()}),
       .examples = {{"bertie generate -m gpt2 \"The meaning of life is\"", "greedy"},
                    {"bertie generate -m gpt2 --temperature 0.8 --top-p 0.95 --seed 7 \"Once upon a time\"",
                     "drawn, and drawn again the same"}},
       .run = generate_command},
  };
}

}  // namespace bertie::cli
