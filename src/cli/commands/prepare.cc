// bertie prepare
#include <algorithm>

#include "bertie/json.h"
#include "cli/commands/data_texts.h"
#include "cli/model.h"
#include "cli/output.h"

namespace bertie::cli {
namespace {

void report(const Prepared& prepared, const Settings& settings, double seconds) {
  if (settings.json) return print(to_json(prepared, *settings.out, seconds) + "\n");
  const auto line = [](std::string_view name, const PartSummary& part) {
    print("{}: {} shards, {}; {} documents, {} sentences, {} tokens from {} of text", name, part.shards,
          size_text(part.file_bytes), with_commas(part.documents), with_commas(part.sentences),
          with_commas(part.tokens), size_text(part.text_bytes));
    print("; {:.2f}% unknown\n", 100 * double(part.unknown) / double(std::max<uint64_t>(part.tokens, 1)));
  };
  line("train", prepared.train);
  if (prepared.held_out.shards > 0) line("held out", prepared.held_out);
}

}  // namespace

int prepare_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("prepare needs texts", "bertie prepare --vocab vocab.txt --out shards texts/");
  if (!settings.out) throw UsageError("prepare needs a folder for the shards", "--out shards");
  if (settings.cased && !settings.vocab)
    throw UsageError("--cased tells how to read a vocab.txt, but none was given",
                     "--vocab vocab.txt --cased");
  TextMeter meter(settings);
  const Prepared prepared =
      prepare({.texts = text_options(settings, meter),
               .out = *settings.out,
               .tokenizer = settings.vocab ? ModelFiles(std::filesystem::path(*settings.vocab))
                                           : tokenizer_files(settings),
               .cased = settings.cased,
               .held_out = settings.held_out.value_or(0),
               .shard_bytes = settings.shard_size.value_or(64) << 20,
               .threads = int(settings.threads.value_or(0)),
               .force = settings.force});
  meter.finish(prepared.tokenized_bytes);
  if (prepared.kept_shards > 0 && !settings.quiet && !settings.json)
    print("went on after {} shards that were there\n", prepared.kept_shards);
  report(prepared, settings, meter.seconds());
  return report_texts(prepared.texts, settings);
}

}  // namespace bertie::cli
