// bertie embed
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "bertie/npy.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

std::string summary_line(std::string_view text, std::span<const float> vector, const Style& style,
                         size_t width) {
  constexpr size_t kShown = 4;
  double squares = 0;
  for (float x : vector) squares += double(x) * double(x);
  std::string numbers;
  for (size_t i = 0; i < std::min(kShown, vector.size()); ++i) numbers += fmt::format(" {:7.4f}", vector[i]);
  const std::string line = fmt::format("{} numbers, norm {:.3f}: [{}{}]", vector.size(), std::sqrt(squares),
                                       numbers, vector.size() > kShown ? " …" : "");
  const size_t room = width - std::min(width, display_width(line) + 2);
  return line + "  " + style.dim(cut(printable(text.substr(0, 400)), std::max<size_t>(room, 16))) + '\n';
}

}  // namespace

int embed_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings, TaskKind::kClassify);
  const TextModel model = load_model(settings);
  const std::optional<TableWriter> table = table_output(settings);
  const auto columns = [&](uint64_t) {
    TableWriter header = *table;
    header.field("index");
    for (size_t i = 0; i < model.dimension(); ++i) header.field(i);
    return header.take_row();
  };
  const auto array = [row = std::array{model.dimension()}](uint64_t rows) { return npy_header(rows, row); };
  std::function<std::string(uint64_t)> front;
  if (settings.npy)
    front = array;
  else if (table)
    front = columns;
  ResultOutput output(settings, Work::kRead, front);
  if (settings.npy && table) print(columns(0));

  const bool npy = settings.npy.has_value();
  const bool summary = !settings.json && !table && !npy && is_terminal(1);
  const bool json = settings.json || (!table && !npy && !summary);
  const auto put_vector = [&](const std::vector<float>& vector) {
    output.put({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
  };
  ForEach how{.shows_results = json || summary || table,
              .where = output.where(),
              .failed = npy ? "; their rows are NaN" : ""};
  size_t truncated = 0;
  how.results = output.kept(), how.cut = &truncated;
  if (npy) how.on_failure = [&](const Input&) { put_vector(std::vector<float>(model.dimension(), NAN)); };
  const Style style = Style::for_output();
  const size_t width = output_width();
  const int code = for_each_input(
      settings, inputs, how, model,
      [&](const TextModel& encoder, std::span<const Input> block, const ProgressCallback& progress) {
        return encoder.embed(texts_of(block), embed_options(settings, progress));
      },
      [&](const Input& input, const Embedding& embedding) {
        if (json) return to_json(embedding, input_of(input)) + "\n";
        if (!table) return std::string();
        TableWriter row = *table;
        row.field(input.index);
        for (const float value : embedding.values) row.field(value);
        return row.take_row();
      },
      [&](const Input& input, const Embedding& embedding, const std::string& row) {
        truncated += embedding.truncated;
        if (npy) {
          put_vector(embedding.values);
          print(row);
        } else {
          output.put(row);
        }
        if (summary) print(summary_line(input.a, embedding.values, style, width));
      });
  warn_if_cut(settings, model, truncated, inputs.count(), "texts", model.max_length());
  return code;
}

}  // namespace bertie::cli
