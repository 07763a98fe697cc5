// The table's chapter about data: from text to what a model learns from.
#include "cli/options.h"

namespace bertie::cli {
namespace {

const Option kField{.name = "field",
                    .argument = "NAME",
                    .help = "key of JSON lines that has the text; standard input is JSON lines then",
                    .standard = "text",
                    .to = &Settings::field};

const Option kStrict{.name = "strict",
                     .help = "stop at the first bad line and at files that are no text",
                     .to = &Settings::strict};

constexpr std::string_view kTexts =
    "FILE is a text file, a folder (all files in it and below, in the order of their names) or - for "
    "standard input; gzip, xz and Zstandard are unpacked on the way. A line is a paragraph; an empty line "
    "ends a document. Files named .jsonl, .json or .ndjson (packed or not) are JSON lines instead: one "
    "object a line, whose string under --field is a document.\n\n"
    "Bytes that are not UTF-8, and zero bytes, are read as U+FFFD; JSON lines that are broken or have no "
    "such string are left out; files that are no text are skipped. Warnings name the first, the report "
    "counts them, and the exit code is 1, unless all that was wrong are files found in a folder that are no "
    "text.";

const std::string kVocabAbout =
    std::string(
        "Learns a WordPiece vocabulary from texts: [PAD], [UNK], [CLS], [SEP], [MASK], the characters, and "
        "then the pieces that joining the most frequent neighbors gives, again and again. Writes vocab.txt, "
        "and tokenizer_config.json beside it, as bertie and transformers read them.\n\n") +
    std::string(kTexts);

const std::string kPrepareAbout =
    std::string(
        "Splits texts into sentences, tokenizes them and writes shards, files of tokens that training maps "
        "into memory. The tokenizer's files are copied beside them.\n\n") +
    std::string(kTexts) +
    "\n\n"
    "A run that was stopped goes on when it is started again in the same way: whole shards stay, and the "
    "result is the same, byte for byte.";

}  // namespace

std::vector<Command> data_commands() {
  return {
      {.name = "vocab",
       .words = "FILE...",
       .most_words = SIZE_MAX,
       .summary = "learn a WordPiece vocabulary from texts",
       .about = kVocabAbout,
       .options = {{.name = "out",
                    .letter = 'o',
                    .argument = "FILE",
                    .help = "vocab.txt to write",
                    .standard = "vocab.txt",
                    .to = &Settings::out},
                   {.name = "size",
                    .argument = "N",
                    .help = "tokens in the vocabulary, at most; the characters alone must fit",
                    .standard = "30522",
                    .to = &Settings::size,
                    .least = 6,
                    .most = 4'000'000},
                   {.name = "from",
                    .argument = "MODEL",
                    .help = "do not learn, but keep the tokens of this model's vocabulary that are needed "
                            "most; bertie convert --vocab then makes the model smaller",
                    .to = &Settings::from},
                   {.name = "min-frequency",
                    .argument = "N",
                    .help = "join two pieces that stand together at least N times",
                    .standard = "2",
                    .to = &Settings::min_frequency,
                    .least = 1},
                   {.name = "alphabet-limit",
                    .argument = "N",
                    .help = "characters to keep, the most frequent ones",
                    .standard = "1000",
                    .to = &Settings::alphabet_limit,
                    .least = 1},
                   {.name = "cased", .help = "keep capitals and accents", .to = &Settings::cased},
                   {.name = "force",
                    .help = "replace a vocab.txt and a tokenizer_config.json that are there",
                    .to = &Settings::force},
                   kField,
                   kStrict},
       .examples = {{"bertie vocab --out model/vocab.txt texts/", "as for bert-base-uncased"},
                    {"bertie vocab --cased --size 8000 --out cased/vocab.txt news.txt.xz", "small and cased"},
                    {"zcat dump.jsonl.gz | bertie vocab --field text -", "in a pipe"}},
       .run = vocab_command},
      {.name = "prepare",
       .words = "FILE...",
       .most_words = SIZE_MAX,
       .summary = "texts to shards of tokens, for pre-training",
       .about = kPrepareAbout,
       .options = {{.name = "out",
                    .letter = 'o',
                    .argument = "DIR",
                    .help = "folder for the shards",
                    .to = &Settings::out},
                   {.name = "vocab",
                    .argument = "FILE",
                    .help = "vocab.txt or tokenizer.json to use, instead of a model's",
                    .to = &Settings::vocab},
                   {.name = "cased",
                    .help = "the vocab.txt is cased: keep capitals and accents",
                    .to = &Settings::cased},
                   {.name = "held-out",
                    .argument = "SHARE",
                    .help = "share of documents to keep for evaluation, in shards of their own",
                    .standard = "0",
                    .to = &Settings::held_out},
                   {.name = "shard-size",
                    .argument = "MB",
                    .help = "size at which a shard is full",
                    .standard = "64",
                    .to = &Settings::shard_size,
                    .least = 1,
                    .most = 1024},
                   {.name = "force",
                    .help =
                        "begin anew in a folder that has other shards; these and their tokenizer are removed",
                    .to = &Settings::force},
                   kField,
                   kStrict},
       .examples = {{"bertie prepare --vocab vocab.txt --held-out 0.01 --out shards texts/",
                     "a folder of texts, one document in a hundred for evaluation"},
                    {"bertie prepare -m gpt2 --out shards --field body dump.jsonl.zst",
                     "JSON lines with the text under \"body\", for GPT-2"},
                    {"xzcat wiki.txt.xz | bertie prepare --vocab vocab.txt --out shards -", "in a pipe"}},
       .run = prepare_command},
  };
}

}  // namespace bertie::cli
