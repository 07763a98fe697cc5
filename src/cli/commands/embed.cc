// bertie embed
#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/output_file.h"
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

int embed_command(const Settings& settings) {
  Inputs inputs(settings, TaskKind::kClassify);
  const TextModel model = load_model(settings);
  std::optional<NpyOutput> npy;
  if (settings.npy) npy.emplace(settings, std::vector{model.dimension()});
  const auto fill_to = [&](size_t rows) {  // for inputs that failed
    while (npy->rows() < rows) npy->add(std::vector<float>(model.dimension(), NAN));
  };

  const std::optional<TableWriter> table = table_output(settings);
  const bool summary = !settings.json && !table && !npy && is_terminal(1);
  const bool json = settings.json || (!table && !npy && !summary);
  if (table) {
    TableWriter header = *table;
    header.field("index");
    for (size_t i = 0; i < model.dimension(); ++i) header.field(i);
    print(header.take_row());
  }
  const Style style = Style::for_output();
  const size_t width = output_width();
  size_t truncated = 0;
  int code = 0;
  try {
    code = for_each_input(
        settings, inputs,
        {.shows_results = json || summary || table,
         .where = settings.npy ? fmt::format(", to {}", *settings.npy) : "",
         .failed = npy ? "; their rows are NaN" : ""},
        model,
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
          if (npy) fill_to(input.index), npy->add(embedding.values);
          print(row);
          if (summary) print(summary_line(input.a, embedding.values, style, width));
        });
  } catch (...) {  // a signal, a bad line under --strict, a file that cannot be read to its end
    if (npy) npy->keep_what_is_done();
    throw;
  }
  if (npy) fill_to(inputs.count()), npy->commit();
  warn_if_cut(settings, model, truncated, inputs.count(), "texts", model.max_length());
  return code;
}

}  // namespace bertie::cli
