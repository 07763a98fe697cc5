// bertie index
#include "bertie/launcher.h"
#include "bertie/vector_index.h"
#include "cli/commands/training.h"
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

// The folder, as results that are kept.
class KeptIndex final : public KeptResults {
 public:
  KeptIndex(const Settings& settings, VectorIndexWriter& writer) : settings_(settings), writer_(writer) {}
  Mark done() const override { return writer_.done(); }
  void mark(const Mark& mark) override { writer_.mark(mark); }
  std::optional<Mark> finish(const Mark& all) override {
    writer_.commit();
    return all;
  }
  void cut_off() override {
    warn(fmt::format("stopped: {} texts are in {}", with_commas(writer_.size()), settings_.words[0]),
         resume_command(settings_, {}));
  }

 private:
  const Settings& settings_;
  VectorIndexWriter& writer_;
};

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
                                   (model.model().format() == WeightFormat::kBFloat16 ? "; bf16"
                                    : model.model().format() == WeightFormat::kInt8   ? "; int8"
                                                                                      : ""),
                            .work = describe_work(settings, Work::kRead)},
                           settings.resume);
  KeptIndex kept(settings, writer);
  const StopInOrder stop;
  size_t truncated = 0;
  ForEach how{.shows_results = false,
              .where = fmt::format(", to {}", settings.words[0]),
              .failed = "; their vectors are zeros"};
  how.on_failure = [&](const Input&) { writer.add(std::vector<float>(model.dimension()), ""); };
  how.results = &kept, how.cut = &truncated;
  const int code = for_each_input(
      reading, inputs, how, model,
      [&](const TextModel& encoder, std::span<const Input> block, const ProgressCallback& progress) {
        return encoder.embed(texts_of(block), embed_options(settings, progress));
      },
      [&](const Input& input, const Embedding& embedding) {
        truncated += embedding.truncated;
        writer.add(embedding.values, input.a);
      });
  warn_if_cut(settings, model, truncated, inputs.count(), "texts", model.max_length());
  return code;
}

}  // namespace bertie::cli
