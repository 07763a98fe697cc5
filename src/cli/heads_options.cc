// The table's chapter about models without some heads, what heads look at, and models made smaller.
#include "cli/options.h"

namespace bertie::cli {

Option without_option() {
  return {
      .name = "without",
      .argument = "HEADS",
      .help =
          "switch these heads off: 5-3,7-1 are layer 5's head 3 and layer 7's head 1; 5 is all of layer 5",
      .to = &Settings::without};
}

Option rollout_option() {
  return {
      .name = "rollout",
      .help = "what attention adds up to over the layers up to --layer: how much of each token is in each",
      .to = &Settings::rollout};
}

Option gradient_option() {
  return {.name = "gradient",
          .argument = "WORD",
          .help =
              "what each weight does to a prediction: WORD at the text's mask, or the label WORD of a text "
              "without mask; \"\" is the likeliest",
          .to = &Settings::gradient};
}

Option mask_option() {
  return {.name = "mask",
          .argument = "N",
          .help = "which mask of the text --gradient is about, from 1",
          .standard = "1",
          .to = &Settings::mask,
          .least = 1};
}

std::vector<Command> heads_commands() {
  return {
      {.name = "heads",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "what a model's heads look at, and which relations of a treebank they find",
       .about = "Reads each TEXT, each line of each FILE or of standard input, or the sentences of a "
                "treebank, and "
                "says for each head how much of its attention goes to [CLS], [SEP], punctuation, the "
                "previous, the "
                "next and the same token, how spread out it is (entropy, in nats), how far it goes, and "
                "which heads "
                "do the same.\n\n"
                "With a treebank (--data, in CoNLL-U), also which head finds each dependency relation best, "
                "beside "
                "the best fixed offset and the best head of a model with random weights: a word's guess is "
                "the word "
                "that it looks at most, special tokens and itself left out; an arrow to the left says that "
                "the word which is "
                "depended on "
                "looks at the other. With --ablate, what switching each head off does to the masked language "
                "model's "
                "loss. --html writes a page with all of it. docs/heads.md says how to read this, and what it "
                "does not show.\n\n"
                "With --json one object: model, layers, heads, sentences, tokens, shares (a head each), "
                "relations, "
                "divergence of all heads with all, loss.",
       .options =
           {file_option(),
            {.name = "data",
             .argument = "FILE",
             .help = "treebank in CoNLL-U, packed or not; - is standard input",
             .to = &Settings::data},
            {.name = "gap",
             .argument = "FILE",
             .help = "instead: pronouns of GAP (gap-development.tsv), and the head that tells best which of "
                     "two names each means",
             .to = &Settings::gap},
            {.name = "limit",
             .argument = "N",
             .help = "read the first N sentences alone",
             .standard = "all",
             .to = &Settings::n,
             .least = 1},
            {.name = "ablate",
             .argument = "N",
             .help = "switch heads off one by one, on sentences of N tokens in all",
             .standard = "0, which is not at all",
             .to = &Settings::ablate},
            {.name = "no-random",
             .help = "without the model with random weights, which takes as long as the model",
             .to = &Settings::no_random},
            {.name = "each", .help = "a line for each head", .to = &Settings::each},
            {.name = "html",
             .argument = "FILE",
             .help = "write a page to look at it with, in one file",
             .to = &Settings::html},
            force_option(),
            {.name = "seed",
             .argument = "N",
             .help = "of random weights, and of what is masked",
             .standard = "1",
             .to = &Settings::seed},
            precision_option()},
       .examples = {{"bertie heads -m bert-base-uncased --data en_ewt-ud-dev.conllu", "relations and all"},
                    {"bertie heads -m bert-base-uncased --file texts.txt --ablate 1000 --each",
                     "what each head looks at, and what is lost without it"},
                    {"bertie heads -m bert-base-uncased --data en_ewt-ud-dev.conllu --html heads.html",
                     "a page to open or to send"},
                    {"bertie heads -m ./model --data en_ewt-ud-dev.conllu --json > heads.json && mv "
                     "heads.json model/",
                     "for programs, and for the page of bertie view -m ./model"}},
       .run = heads_command},
      {.name = "prune",
       .words = "TO",
       .most_words = 1,
       .summary = "a model without some of its heads: smaller and faster",
       .about =
           "Writes the model, tokenizer and all, into the folder TO without the heads that --heads names, or "
           "without the --share of them that matter least to its loss: the mean over texts of the size of "
           "the "
           "loss's slope as a head is switched off (Michel et al. 2019). The loss is the masked language "
           "model's on texts (--file), or the classifier's on labelled rows (--data). Each layer keeps one "
           "head "
           "at least.\n\n"
           "transformers before version 5 reads such a model by the config's pruned_heads.",
       .options = {{.name = "heads",
                    .argument = "LIST",
                    .help = "heads to remove: 5-3,7-1 are layer 5's head 3 and layer 7's head 1",
                    .to = &Settings::head_list},
                   {.name = "share",
                    .argument = "P",
                    .help = "remove this share of all heads, from 0 to 1: those that matter least",
                    .to = &Settings::share},
                   file_option(),
                   {.name = "data",
                    .argument = "FILE",
                    .help = "labelled rows, as bertie finetune classify takes them",
                    .to = &Settings::data},
                   {.name = "limit",
                    .argument = "N",
                    .help = "texts or rows to measure on, from the first",
                    .standard = "200",
                    .to = &Settings::n,
                    .least = 1},
                   {.name = "seed",
                    .argument = "N",
                    .help = "of what is masked",
                    .standard = "1",
                    .to = &Settings::seed},
                   {.name = "force", .help = "replace the model in TO", .to = &Settings::force}},
       .examples = {{"bertie prune -m bert-base-uncased bert-pruned --heads 1-2,3-4", "two heads"},
                    {"bertie prune -m bert-base-uncased bert-pruned --share 0.3 --file texts.txt",
                     "a third, by the masked language model's loss"},
                    {"bertie prune -m sst2 sst2-pruned --share 0.3 --data SST-2/train.tsv",
                     "by a classifier's"}},
       .run = prune_command},
      {.name = "quantize",
       .words = "MODEL TO",
       .most_words = 2,
       .summary = "a model in 8-bit integers: a quarter of the size, and faster",
       .about =
           "Writes the folder TO, whole or not at all: the layers' weights and the word embeddings as "
           "integers of 8 bits with a scale for each row; of each layer's inputs the few that are far "
           "larger than the others, which BERT has, stay exact. Every command takes the folder. What was "
           "lost is measured on texts that had no part in it, and printed.\n\n"
           "--precision int8 of other commands does the same when they load a model. A quantized model "
           "cannot learn, and cannot be pruned; transformers does not read it.",
       .options =
           {{.name = "data",
             .argument = "FILE",
             .help = "texts as the model will read them, one a line, some fifty of them; may be given again",
             .standard = "sentences of Bertie's own",
             .to = &Settings::files},
            {.name = "force", .help = "replace the model in TO", .to = &Settings::force}},
       .examples = {{"bertie quantize bert-base-uncased bert-int8", "440 MB become 118"},
                    {"bertie quantize my-model my-model-int8 --data texts.txt",
                     "measured on texts of its own kind"},
                    {"bertie classify -m my-model-int8 \"A fine film.\"", "then as any other model"}},
       .run = quantize_command},
  };
}

}  // namespace bertie::cli
