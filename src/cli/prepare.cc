// bertie prepare
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bertie/data.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace bertie::cli {
namespace {

nlohmann::ordered_json to_json(const PartSummary& part) {
  return {{"shards", part.shards},        {"documents", part.documents}, {"sentences", part.sentences},
          {"tokens", part.tokens},        {"unknown", part.unknown},     {"text_bytes", part.text_bytes},
          {"file_bytes", part.file_bytes}};
}

void report(const Prepared& prepared, const Settings& settings, double seconds) {
  if (settings.json) {
    nlohmann::ordered_json out = {
        {"out", *settings.out},
        {"train", to_json(prepared.train)},
        {"held_out", to_json(prepared.held_out)},
        {"kept_shards", prepared.kept_shards},
        {"seconds", seconds},
        {"megabytes_per_second", double(prepared.tokenized_bytes) / 1e6 / std::max(seconds, 1e-6)}};
    add_text_report(prepared.texts, out);
    print("{}\n", out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
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
  if (!settings.vocab && !has_model(settings))
    throw UsageError("no tokenizer was given", "--vocab vocab.txt, or --model DIR");
  if (settings.cased && !settings.vocab)
    throw UsageError("--cased tells how to read a vocab.txt, but none was given",
                     "--vocab vocab.txt --cased");
  const double held_out = settings.held_out.value_or(0);
  if (!(held_out >= 0 && held_out < 1))
    throw UsageError("--held-out is a share, from 0 to less than 1", "--held-out 0.01");
  TextMeter meter(settings);
  const Prepared prepared =
      prepare({.texts = text_options(settings, meter),
               .out = *settings.out,
               .tokenizer = settings.vocab ? *settings.vocab : tokenizer_directory(settings),
               .cased = settings.cased,
               .held_out = held_out,
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
