// The table; its chapters about tasks, data, training and evaluation are in task_options.cc, data_options.cc,
// train_options.cc and evaluate_options.cc.
#include "cli/options.h"

#include <algorithm>

#include "bertie/model.h"
#include "cli/commands/mechanisms.h"

namespace bertie::cli {

const std::vector<Option>& global_options() {
  static const std::vector<Option> table = {
      {.name = "model",
       .letter = 'm',
       .argument = "MODEL",
       .help = "model: a folder in the Hugging Face layout, or a name that was pulled",
       .standard = "$BERTIE_MODEL, or else the one that is part of bertie",
       .to = &Settings::model},
      {.name = "threads",
       .letter = 't',
       .argument = "N",
       .help = "threads to compute with; 0: one for every core",
       .standard = "0",
       .to = &Settings::threads,
       .most = 1024},
      {.name = "json", .help = "print JSON, exact and for programs", .to = &Settings::json},
      {.name = "strict",
       .help =
           "stop at the first input that cannot be used, and take no model with tensors it has no use for",
       .to = &Settings::strict},
      {.name = "quiet",
       .letter = 'q',
       .help = "no progress and no warnings; errors stay",
       .to = &Settings::quiet},
      {.name = "verbose", .letter = 'v', .help = "say more on standard error", .to = &Settings::verbose},
      {.name = "help", .letter = 'h', .help = "show help, also for a command", .to = &Settings::help},
      {.name = "version", .help = "show the version", .to = &Settings::version},
  };
  return table;
}

std::vector<Choice> size_choices() {
  return {{"tiny", "2 x 128"},   {"mini", "4 x 256"},  {"small", "4 x 512"},
          {"medium", "8 x 512"}, {"base", "12 x 768"}, {"large", "24 x 1024"}};
}

Option file_option() {
  return {.name = "file",
          .letter = 'f',
          .argument = "FILE",
          .help = "read texts from FILE, one a line; - is standard input; may be given again",
          .to = &Settings::files};
}

Option table_file_option() {
  Option option = file_option();
  option.help =
      "read texts from FILE, one a line, or from a column of a table (.csv, .tsv, .jsonl, .json), packed or "
      "not; - is standard input; may be given again";
  return option;
}

Option column_option() {
  return {.name = "column",
          .argument = "NAME",
          .help = "column of the text, by name or number from 1; FILE is a table then, whatever its name",
          .standard = "found by usual names",
          .to = &Settings::column};
}

Option format_option() {
  return {.name = "format",
          .argument = "HOW",
          .help = "print results for programs",
          .to = &Settings::format,
          .choices = {{"json", "an object a line; --json is the same", int(ResultFormat::kJson)},
                      {"csv", "rows with commas, a header first", int(ResultFormat::kCsv)},
                      {"tsv", "rows with tabs, a header first", int(ResultFormat::kTsv)}}};
}

Option cut_option(size_t least) {
  return {.name = "max-length",
          .argument = "N",
          .help = "cut texts at N tokens, special ones included",
          .standard = "the model's",
          .to = &Settings::max_length,
          .least = least};
}

Option precision_option(std::string_view help) {
  return {.name = "precision",
          .argument = "FORMAT",
          .help = help,
          .standard = "fp32",
          .to = &Settings::precision,
          .choices = {{"fp32", "32 bits, as computed with", int(WeightFormat::kFloat32)},
                      {"bf16", "16 bits, bfloat", int(WeightFormat::kBFloat16)},
                      {"int8", "8 bits, quantized as by bertie quantize", int(WeightFormat::kInt8)}}};
}

std::vector<Option> vector_options() {
  return {
      {.name = "pooling",
       .argument = "HOW",
       .help = "how tokens become one vector",
       .standard = "as the model's files say, or else mean",
       .to = &Settings::pooling,
       .choices = {{"cls", "the first token's vector", int(PoolingKind::kCls)},
                   {"mean", "the mean of all", int(PoolingKind::kMean)},
                   {"max", "the largest of each number", int(PoolingKind::kMax)},
                   {"mean-sqrt-length", "the sum over the root of how many there are",
                    int(PoolingKind::kMeanSqrtLength)}}},
      {.name = "normalize",
       .help = "vectors of length 1, also where the model's files do not say so",
       .to = &Settings::normalize},
      {.name = "prefix",
       .argument = "TEXT",
       .help = "goes before each text, as some models want it: \"passage: \"",
       .to = &Settings::prefix},
      {.name = "windows",
       .help =
           "a text that is longer than the model takes goes in windows, and gets the mean of their vectors, "
           "instead of being cut",
       .to = &Settings::windows}};
}

Option force_option() {
  return {.name = "force", .help = "replace a file that is there", .to = &Settings::force};
}

std::vector<Option> result_options() {
  return {
      {.name = "out",
       .old_name = "output",
       .letter = 'o',
       .argument = "FILE",
       .help = "write results to FILE: JSON lines, or what --format or its name says",
       .to = &Settings::out},
      {.name = "resume",
       .help = "go on with FILE where it was cut off; the same bytes come out",
       .to = &Settings::resume},
      force_option(),
      {.name = "part",
       .argument = "I/N",
       .help = "do the I-th of N parts of the inputs; whoever of the N processes is last makes FILE. mpirun "
               "says it by itself",
       .to = &Settings::part}};
}

namespace {

std::vector<Command> other_commands() {
  return {
      {.name = "demo",
       .words = "",
       .most_words = 0,
       .summary = "see what BERT does, one screen after the other",
       .about =
           "Shows what a model can do: fill a gap, tell what comes next, compare texts, tell the senses of a "
           "word apart, and who looks at whom; each with the command that did it. At the end three words "
           "go through self-attention, which `bertie explain` works out number by number. On a "
           "terminal, Enter goes on.",
       .options = {precision_option()},
       .examples = {{"bertie demo", "all of it"},
                    {"bertie demo --model bert-base-uncased", "with another model"},
                    {"bertie demo --json", "\"You found me\" through attention, all digits"}},
       .run = demo_command},
      {.name = "tokenize",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "text to tokens, ids and their places in the text",
       .about =
           "Splits each TEXT, each line of each FILE, or each line of standard input into the tokens that "
           "the model sees, exactly as Hugging Face's tokenizers do. Offsets count code points of the "
           "text.\n\n"
           "The tokenizer is that of --model, or of --vocab, or of the model that bertie brings.",
       .options = {file_option(),
                   {.name = "vocab",
                    .argument = "FILE",
                    .help = "vocab.txt or tokenizer.json to use, instead of a model's",
                    .to = &Settings::vocab},
                   {.name = "cased",
                    .help = "the vocab.txt is cased: keep capitals and accents",
                    .to = &Settings::cased},
                   {.name = "pair",
                    .argument = "TEXT",
                    .help = "second text, paired with each one",
                    .to = &Settings::pair},
                   {.name = "max-length",
                    .argument = "N",
                    .help = "at most N tokens, special ones included",
                    .standard = "no limit",
                    .to = &Settings::max_length,
                    .least = 1},
                   {.name = "stride",
                    .argument = "N",
                    .help = "do not cut at --max-length, but go on in windows that share N tokens",
                    .to = &Settings::stride},
                   {.name = "no-special", .help = "leave out [CLS] and [SEP]", .to = &Settings::no_special},
                   {.name = "plain-specials",
                    .help = "take \"[MASK]\" and the like in the text as plain characters",
                    .to = &Settings::plain_specials},
                   {.name = "ids", .help = "print ids alone, one line a text", .to = &Settings::ids}},
       .examples = {{"bertie tokenize --vocab vocab.txt \"You found me.\"", "as a table"},
                    {"bertie tokenize -m all-MiniLM-L6-v2 --ids < texts.txt", "ids, a line for a line"},
                    {"bertie tokenize -m all-MiniLM-L6-v2 --max-length 128 --stride 32 --json -f long.txt",
                     "long texts, in windows"}},
       .run = tokenize_command},
      {.name = "embed",
       .words = "[TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "text to sentence vectors",
       .about =
           "Gives one vector for each TEXT, each line of each FILE, or each line of standard input, pooled "
           "as the model's modules.json says. An empty line is a text too, and one that fails a row of NaN, "
           "so that rows and lines agree. A FILE may be a table (.csv, .tsv, .jsonl, .json).\n\n"
           "Prints a JSON object a line; on a terminal, a summary a line. With --npy, all vectors go into "
           "one array of shape (texts, dimension), which appears under its name when it is complete, or "
           "with the rows that are done when it is stopped with Ctrl-C.",
       .options = chapters({{table_file_option(),
                             column_option(),
                             format_option(),
                             {.name = "npy",
                              .argument = "FILE",
                              .help = "write the vectors to FILE, for NumPy",
                              .to = &Settings::npy}},
                            result_options(),
                            vector_options(),
                            {cut_option(), precision_option()}}),
       .examples = {{"bertie embed -m all-MiniLM-L6-v2 \"hello world\"", "one vector"},
                    {"bertie embed -m all-MiniLM-L6-v2 --file texts.txt --npy vectors.npy",
                     "a file, for NumPy"},
                    {"bertie embed -m all-MiniLM-L6-v2 --file reviews.csv --column review --format csv",
                     "a column of a table, and a table"},
                    {"bertie embed -m intfloat/e5-small-v2 --prefix \"passage: \" --windows --file pages.txt "
                     "--npy pages.npy",
                     "long texts, for a model that wants a prefix"},
                    {"cat texts.txt | bertie embed -m all-MiniLM-L6-v2 | gzip > vectors.jsonl.gz",
                     "in a pipe"}},
       .run = embed_command},
      {.name = "attend",
       .words = "TEXT",
       .most_words = 1,
       .summary = "who looks at whom: attention weights",
       .about =
           "Shows how much each token (row) looks at each other one (column), in percent. Layers and heads "
           "count from 1, as papers do; arrays in JSON and .npy start at 0, as arrays do.\n\n"
           "--json and --npy give all layers and heads, in the shape (layers, heads, tokens, tokens).\n\n"
           "--svg and --png draw all heads, the heads of --layer, or the one of --layer and --head. --html "
           "writes the page of `bertie view` with these weights in it: one file that opens from disk, "
           "without "
           "any network; with --layer it has that layer alone, which long texts need.",
       .options =
           {{.name = "layer",
             .letter = 'l',
             .argument = "L",
             .help = "layer to show, from 1",
             .standard = "the last",
             .to = &Settings::layer,
             .least = 1},
            {.name = "head",
             .argument = "H",
             .help = "head to show, from 1",
             .standard = "mean over all",
             .to = &Settings::head,
             .least = 1},
            {.name = "top",
             .argument = "K",
             .help = "for each token, only the K tokens it looks at most",
             .to = &Settings::top,
             .least = 1},
            {.name = "pair", .argument = "TEXT", .help = "second text of a pair", .to = &Settings::pair},
            {.name = "npy",
             .argument = "FILE",
             .help = "write all weights to FILE, for NumPy",
             .to = &Settings::npy},
            {.name = "html",
             .argument = "FILE",
             .help = "write a page to look at them with, in one file",
             .to = &Settings::html},
            {.name = "svg", .argument = "FILE", .help = "draw them, for a paper", .to = &Settings::svg},
            {.name = "png", .argument = "FILE", .help = "draw them, for a slide", .to = &Settings::png},
            force_option(),
            without_option(),
            rollout_option(),
            gradient_option(),
            mask_option(),
            precision_option()},
       .examples = {{"bertie attend -m all-MiniLM-L6-v2 \"You found me.\"", "last layer, mean over heads"},
                    {"bertie attend -m all-MiniLM-L6-v2 --layer 2 --head 5 \"You found me.\"", "one head"},
                    {"bertie attend -m bert-base-uncased --without 5-3,7 \"You found me.\"",
                     "with a head and a layer's heads off"},
                    {"bertie attend -m bert-base-uncased --rollout \"You found me.\"", "over all layers"},
                    {"bertie attend -m bert-base-uncased --gradient river \"He sat by the [MASK].\"",
                     "which weights make it likely"},
                    {"bertie attend -m all-MiniLM-L6-v2 --npy weights.npy \"You found me.\"",
                     "everything, for NumPy"},
                    {"bertie attend -m all-MiniLM-L6-v2 --html seen.html \"You found me.\"",
                     "a page to open or to send"},
                    {"bertie attend -m all-MiniLM-L6-v2 --layer 5 --head 3 --svg head.svg \"You found me.\"",
                     "a picture"}},
       .run = attend_command},
      {.name = "explain",
       .words = "[TEXT]",
       .most_words = 1,
       .summary = "self-attention step by step, with its numbers",
       .about =
           "Works self-attention out for one head: X, the projections Q, K and V, the scores, the scaling, "
           "the softmax, the weighted sum, and how all heads become one result. Each step shows its "
           "formula, its matrix and one number worked out, to check with a pocket calculator. Digits are "
           "rounded for reading.\n\n"
           "Without TEXT and --model it takes \"You found me\" with numbers made for working by hand.\n\n"
           "--json gives every matrix whole and with all digits: x, w_q, w_k, w_v, b_q, b_k, b_v, q, k, v, "
           "scores, scaled, weights, output, concatenated, w_o, b_o, result. Layer and head count from 1 "
           "there too.",
       .options =
           {{.name = "layer",
             .letter = 'l',
             .argument = "L",
             .help = "layer to explain, from 1",
             .standard = "1",
             .to = &Settings::layer,
             .least = 1},
            {.name = "head",
             .argument = "H",
             .help = "head to explain, from 1",
             .standard = "1",
             .to = &Settings::head,
             .least = 1},
            {.name = "query",
             .argument = "TOKEN",
             .help = "token whose numbers are worked out: a word of the text, or its place from 1",
             .standard = "the word in the middle",
             .to = &Settings::query},
            {.name = "pair", .argument = "TEXT", .help = "second text of a pair", .to = &Settings::pair},
            precision_option()},
       .examples = {{"bertie explain", "three words, by hand"},
                    {"bertie explain --head 2 --query me", "the other head, another word"},
                    {"bertie explain -m all-MiniLM-L6-v2 --layer 3 --head 2 \"You found me.\"",
                     "a head of a real model"},
                    {"bertie explain --json > steps.json", "every number"}},
       .run = explain_command},
      {.name = "senses",
       .words = "WORD [TEXT...]",
       .most_words = SIZE_MAX,
       .summary = "one word in several texts: how its vectors differ",
       .about =
           "Finds WORD in each TEXT, each line of each FILE, or each line of standard input, and compares "
           "its vectors there, layer by layer, where a static vector would be the same everywhere. Three "
           "places or more are grouped into senses by their vectors after the layer at which groups are "
           "most distinct, and drawn in the plane in which they differ most. In a text without WORD its forms "
           "count: banks, carried for carry. Lines that have neither are left out; of long ones what the model "
           "reads around WORD is taken, and of all lines the first 500 places.\n\n"
           "With --json one object: word, places with text, start, end, word, group, x and y, layer, "
           "silhouette, and cosines for each layer, the embeddings first.",
       .options = {file_option(),
                   {.name = "layer",
                    .letter = 'l',
                    .argument = "L",
                    .help = "layer whose vectors are grouped and drawn, from 1",
                    .standard = "the one at which groups are most distinct",
                    .to = &Settings::layer,
                    .least = 1},
                   precision_option()},
       .examples =
           {{"bertie senses -m bert-base-uncased bank \"He sat on the river bank.\" \"The bank lent me "
             "money.\" \"The bank of the Seine.\"",
             "which two are alike?"},
            {"bertie senses -m bert-base-uncased spring --file lines.txt --json", "for a program"}},
       .run = senses_command},
      {.name = "info",
       .words = "[MODEL]",
       .most_words = 1,
       .summary = "what a model is: shape, parameters, files, memory",
       .about = "Opens MODEL (or --model), a folder or a name that was pulled, and says what it is.",
       .options = {precision_option()},
       .examples = {{"bertie info all-MiniLM-L6-v2", "for reading"},
                    {"bertie info all-MiniLM-L6-v2 --json", "for programs"}},
       .run = info_command},
      {.name = "pull",
       .words = "NAME[@REVISION]",
       .most_words = 1,
       .summary = "download a model from the hub",
       .about =
           "Gets what Bertie reads of a model (configuration, tokenizer, weights) into the cache that "
           "Python's huggingface_hub uses, and says where it is. Every file is checked against its SHA sum. "
           "A download that was cut off goes on where it stopped.\n\n"
           "REVISION is a branch, a tag or a commit. Where there are no safetensors, pytorch_model.bin is "
           "taken, which is read as data and never run.",
       .examples = {{"bertie pull sentence-transformers/all-MiniLM-L6-v2", "then --model takes this name"},
                    {"bertie pull google-bert/bert-base-uncased@main", "a branch"},
                    {"HF_TOKEN=... bertie pull organization/private-model", "with a token"}},
       .run = pull_command},
      {.name = "models",
       .words = "",
       .most_words = 0,
       .summary = "the models that are here",
       .about = "Lists the models in the cache: those pulled with Bertie, and those that Python downloaded. "
                "Any of these names may stand after --model.",
       .examples = {{"bertie models", "for reading"}, {"bertie models --json", "a JSON object a line"}},
       .run = models_command},
      {.name = "convert",
       .words = "FROM TO",
       .most_words = 2,
       .summary = "a checkpoint to a folder of safetensors, under today's names",
       .about =
           "Reads a model folder, a .safetensors file, one that torch.save wrote (.bin, .pt, .pth), an "
           "index of shards (.index.json), a TensorFlow checkpoint (model.ckpt, of model.ckpt.index), an "
           ".onnx or an .npz file, and writes the folder TO, whole or not at all: model.safetensors, "
           "config.json, the "
           "tokenizer, and the modules of a sentence-transformers model.\n\n"
           "Tensors get the names that transformers gives them today. Known are the names of Google's "
           "BERT and ALBERT and OpenAI's GPT-2 in TensorFlow, and of early PyTorch checkpoints. The "
           "optimizer's state, buffers and copies of tied tensors are left out. A tensor that the "
           "model has no use for is an error, unless --drop or --drop-unknown leaves it out.\n\n"
           "A pickle is read as data: it may make tensors, and a call to anything else is an error. Of an "
           "ONNX graph the weights are found again, unless they are 8-bit integers or fused. Keras and Flax "
           "files are not read; the error says which lines of Python make a file that is.",
       .options = {{.name = "dtype",
                    .argument = "TYPE",
                    .help = "numbers of the new file",
                    .standard = "as they are",
                    .to = &Settings::dtype,
                    .choices = {{"fp32", "32 bits", int(Precision::kFloat32)},
                                {"fp16", "16 bits, IEEE", int(Precision::kFloat16)},
                                {"bf16", "16 bits, bfloat", int(Precision::kBFloat16)}}},
                   {.name = "config",
                    .argument = "FILE",
                    .help = "config.json to use",
                    .standard = "the one beside FROM",
                    .to = &Settings::config},
                   {.name = "vocab",
                    .argument = "FILE",
                    .help = "vocab.txt of the tokens to keep, from bertie vocab --from: a smaller model",
                    .standard = "all",
                    .to = &Settings::vocab},
                   {.name = "drop",
                    .argument = "NAME",
                    .help = "leave out this tensor; may be given again",
                    .to = &Settings::drop},
                   {.name = "drop-unknown",
                    .help = "leave out tensors that the model has no use for",
                    .to = &Settings::drop_unknown},
                   {.name = "force", .help = "replace the model in TO", .to = &Settings::force}},
       .examples = {{"bertie convert all-MiniLM-L6-v2 minilm-fp16 --dtype fp16", "half the size"},
                    {"bertie convert uncased_L-12_H-768_A-12 bert", "Google's folder, from TensorFlow"},
                    {"bertie convert old.safetensors new --drop-unknown --json",
                     "what is left out, as JSON"}},
       .run = convert_command},
      {.name = "bench",
       .words = "WHAT [PATH]",
       .most_words = 2,
       .summary = "how fast, as a share of what this machine can do",
       .about = "Measures, and measures the machine's own peak in the same run.\n\n"
                "pretrain takes whole steps: a batch with the paper's masks, forward, back, clip, AdamW. It "
                "counts the multiplications and additions of matrix products, 3 times those of the forward "
                "pass (docs/pretraining.md), and nothing that is computed twice.",
       .choices =
           {{"encode", "forward passes with random weights of a known shape", int(Benchmark::kEncode)},
            {"generate", "continuing a text with random weights of GPT-2's shape", int(Benchmark::kGenerate)},
            {"pretrain", "steps of pre-training on random data", int(Benchmark::kPretrain)},
            {"attention", "every mechanism from short to long: time and memory", int(Benchmark::kAttention)},
            {"load", "from a model directory PATH to the first vector", int(Benchmark::kLoad)},
            {"tokenize", "the text file PATH, with the tokenizer of --model", int(Benchmark::kTokenize)},
            {"gemm", "the matrix products of BERT alone", int(Benchmark::kGemm)}},
       .options =
           {{.name = "model",
             .letter = 'm',
             .argument = "M",
             .help = "for encode and generate a shape's name; for tokenize a model directory or vocabulary",
             .standard = "bert-base and minilm",
             .to = &Settings::model,
             .choices = {{"bert-base", "12 x 768"},
                         {"minilm", "6 x 384"},
                         {"bert-large", "24 x 1024"},
                         {"roberta-base", "12 x 768"},
                         {"xlm-roberta-base", "12 x 768"},
                         {"distilbert-base", "6 x 768"},
                         {"albert-base", "12 x 768, shared"},
                         {"gpt2", "12 x 768, causal"}},
             .takes_other_words = true},
            {.name = "shape",
             .argument = "S",
             .help = "for encode and pretrain: BATCHxLENGTH; for encode also sst2x32, 32 lengths as in SST-2",
             .standard = "1x128, 8x128 and sst2x32; for pretrain 32x128",
             .to = &Settings::shape,
             .choices = {{"1x128", ""}, {"8x128", ""}, {"32x128", ""}, {"sst2x32", ""}},
             .takes_other_words = true},
            {.name = "size",
             .argument = "NAME",
             .help = "for pretrain",
             .standard = "tiny, mini and small",
             .to = &Settings::model_size,
             .choices = size_choices()},
            {.name = "accumulate",
             .argument = "K",
             .help = "for pretrain: micro-batches that a step is cut into",
             .standard = "1",
             .to = &Settings::accumulate,
             .least = 1,
             .most = 4096},
            {.name = "bf16",
             .help = "for pretrain: products of bf16, sums of fp32: faster on CPUs that have them "
                     "(AVX512_BF16, AMX)",
             .to = &Settings::bf16},
            {.name = "recompute",
             .help = "for pretrain: compute layers again on the way back",
             .to = &Settings::recompute},
            {.name = "threads",
             .letter = 't',
             .argument = "N",
             .help = "threads to compute with; 0: one, and then one for every core (for attention and "
                     "pretrain the latter)",
             .standard = "0",
             .to = &Settings::threads,
             .most = 1024},
            {.name = "seconds",
             .argument = "S",
             .help = "time for each measurement",
             .standard = "depends",
             .to = &Settings::seconds},
            {.name = "mechanism",
             .argument = "NAME",
             .help = "for attention; may be given again",
             .standard = "all",
             .to = &Settings::mechanisms,
             .choices = mechanism_choices()},
            {.name = "n",
             .argument = "N",
             .help = "for attention: one length",
             .to = &Settings::n,
             .least = 1,
             .most = 1 << 20},
            {.name = "max-n",
             .argument = "N",
             .help = "for attention: lengths 128, 256 and so on to N",
             .standard = "16384",
             .to = &Settings::max_n,
             .least = 128,
             .most = 1 << 20},
            {.name = "heads",
             .argument = "H",
             .help = "for attention",
             .standard = "12",
             .to = &Settings::heads,
             .least = 1,
             .most = 1024},
            {.name = "head-size",
             .argument = "D",
             .help = "for attention",
             .standard = "64",
             .to = &Settings::head_size,
             .least = 1,
             .most = 4096},
            {.name = "forward",
             .help = "for attention: the forward pass alone, without forward and backward together",
             .to = &Settings::forward},
            precision_option("for encode, generate and load: how layers' weights are held in memory")},
       .examples = {{"bertie bench encode", "everything"},
                    {"bertie bench encode --model minilm --shape 8x128 --threads 1 --json", "one number"},
                    {"bertie bench pretrain --size base --shape 32x128", "training BERT base"},
                    {"bertie bench load all-MiniLM-L6-v2", "start-up time"},
                    {"bertie bench attention --mechanism window256 --n 65536 --forward", "one point"},
                    {"bertie bench attention --json > attention.jsonl",
                     "all of them, to keep and to draw (docs/attention)"}},
       .run = bench_command},
      {.name = "help",
       .words = "[COMMAND]",
       .most_words = 1,
       .summary = "help for a command, or all of it",
       .about =
           "Shows the help of a command, or of the program. The man page and docs/cli.md come from here too.",
       .options = {{.name = "man", .help = "print the man page's source", .to = &Settings::man},
                   {.name = "markdown", .help = "print everything as Markdown", .to = &Settings::markdown}},
       .examples = {{"bertie help embed", "one command"}, {"bertie help --man | man -l -", "the man page"}},
       .run = help_command},
      {.name = "completion",
       .words = "SHELL",
       .most_words = 1,
       .summary = "completion script for your shell",
       .about = "Prints a script that teaches the shell to complete commands, options and file names.",
       .choices = {{"bash", "source <(bertie completion bash)", int(Shell::kBash)},
                   {"zsh", "bertie completion zsh > ~/.zfunc/_bertie", int(Shell::kZsh)},
                   {"fish", "bertie completion fish > ~/.config/fish/completions/bertie.fish",
                    int(Shell::kFish)}},
       .examples = {{"source <(bertie completion bash)", "in ~/.bashrc"}},
       .run = completion_command},
  };
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = [] {
    std::vector<Command> all = other_commands();
    const auto insert_before = [&](std::string_view name, const std::vector<Command>& chapter) {
      const auto place =
          std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == name; });
      all.insert(place, chapter.begin(), chapter.end());
    };
    insert_before("attend", task_commands());
    insert_before("info", heads_commands());
    insert_before("bench", data_commands());
    insert_before("bench", train_commands());
    insert_before("bench", evaluate_commands());
    insert_before("bench", serve_commands());
    return all;
  }();
  return table;
}

const std::vector<Choice>& environment() {
  static const std::vector<Choice> table = {
      {"BERTIE_MODEL", "model to use where --model is not given"},
      {"HF_HUB_CACHE", "where pulled models are; else hub in HF_HOME, else ~/.cache/huggingface/hub"},
      {"HF_TOKEN", "token for models that are private or gated"},
      {"HF_ENDPOINT", "hub to pull from; docs/models.md has more variables"},
      {"NO_COLOR", "if set, no colors; without a terminal there are none anyway"},
      {"COLUMNS", "width of tables, where it is not the terminal's"},
      {"BERTIE_INSTRUCTIONS", "avx2, sse4 or scalar: no more than these instructions, to compare them"},
  };
  return table;
}

const std::vector<Choice>& exit_codes() {
  static const std::vector<Choice> table = {
      {"0", "done"},
      {"1", "a file, a model or a text is not what it should be, or output could not be written"},
      {"2", "the command line is wrong"},
      {"130", "stopped with Ctrl-C"},
  };
  return table;
}

}  // namespace bertie::cli
