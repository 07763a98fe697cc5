// bertie index
#include "bertie/vector_index.h"
#include "cli/output_file.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

// Of a folder its whole path, so that the index can be searched from anywhere.
std::string lasting_name(const std::string& model) {
  std::error_code error;
  return std::filesystem::is_directory(model, error)
             ? std::filesystem::absolute(model, error).lexically_normal().string()
             : model;
}

}  // namespace

int index_command(const Settings& settings) {
  if (settings.words.empty())
    throw UsageError("index needs a folder to write to", "bertie index TO --file texts.txt");
  refuse({{settings.normalize, "normalize"}}, "for other vectors: those of an index always have length 1");
  Settings reading = settings;
  reading.words.clear();
  Inputs inputs(reading, TaskKind::kClassify);
  const TextModel model = load_model(settings);
  VectorIndexWriter writer(settings.words[0],
                           {.dimension = model.dimension(),
                            .numbers = VectorNumbers(settings.numbers.value_or(int(VectorNumbers::kFloat16))),
                            .model = lasting_name(model_name(settings)),
                            .pooling = name_of(model.pooling()),
                            .how = fmt::format("prefix {}; texts of more than {} tokens are {}",
                                               in_quotes(settings.prefix.value_or("")), model.max_length(),
                                               settings.windows ? "in windows" : "cut") +
                                   (weight_format(settings) == WeightFormat::kBFloat16 ? "; bf16" : "")},
                           settings.resume);
  const std::vector<float> zeros(model.dimension());
  const auto fill_to = [&](size_t rows) {  // for inputs that failed
    while (writer.size() < rows) writer.add(zeros, "");
  };
  const size_t before = writer.size();
  const auto other_work = [&](const std::string& what) {
    throw Error(fmt::format("{}, so these are not the texts of what was begun in {}", what,
                            in_quotes(settings.words[0])),
                "the same files, or another folder", "resume");
  };
  for (Input skipped; inputs.count() < before;) {
    throw_if_stopped();
    if (!inputs.next(skipped))
      other_work(fmt::format("there are {} texts, and not {}", inputs.count(), before));
    const std::string_view old = writer.old_text(skipped.index);
    if (!old.empty() && old != skipped.a)
      other_work(fmt::format("text {} is another one", skipped.index + 1));
  }
  if (before > 0 && !settings.quiet)
    report_problem(fmt::format("goes on behind {} texts that are there", with_commas(before)));
  size_t truncated = 0;
  const int code = for_each_input(
      reading, inputs,
      {.shows_results = false,
       .where = fmt::format(", to {}", settings.words[0]),
       .failed = "; their vectors are zeros"},
      model,
      [&](const TextModel& encoder, std::span<const Input> block, const ProgressCallback& progress) {
        return encoder.embed(texts_of(block), embed_options(settings, progress));
      },
      [&](const Input& input, const Embedding& embedding) {
        truncated += embedding.truncated;
        fill_to(input.index);
        writer.add(embedding.values, input.a);
        if (writer.size() % 32 == 0) writer.flush();  // so that what is done outlives this process
      });
  fill_to(inputs.count());
  writer.commit();
  warn_if_cut(settings, model, truncated, inputs.count(), "texts", model.max_length());
  return code;
}

}  // namespace bertie::cli
