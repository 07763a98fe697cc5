// bertie embed
#include <algorithm>
#include <cmath>
#include <memory>

#include "bertie/json.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "io/npy.h"

namespace bertie::cli {
namespace {

// (rows, dimension) in a .npy file whose number of rows turns out at the end.
class NpyRows {
 public:
  NpyRows(const std::string& path, size_t dimension) : file_(path), dimension_(dimension) {
    const std::string header = io::npy_header(std::array{size_t{0}, dimension_});
    file_.write(std::as_bytes(std::span(header)));
  }
  void add(std::span<const float> rows) {
    file_.write(std::as_bytes(rows));
    rows_ += rows.size() / dimension_;
  }
  void commit() {
    file_.write_at_start(io::npy_header(std::array{rows_, dimension_}));
    file_.commit();
  }

 private:
  NewFile file_;
  size_t dimension_, rows_ = 0;
};

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
  Inputs inputs(settings);
  const TextModel model = load_model(settings);
  const size_t dimension = model.dimension();
  std::unique_ptr<NpyRows> npy;
  if (settings.npy) npy = std::make_unique<NpyRows>(*settings.npy, dimension);

  const bool summary = !settings.json && !npy && is_terminal(1);
  const bool json = settings.json || (!npy && !summary);
  // On a terminal that shows the results themselves, a progress line would only get between them.
  const bool watched = settings.verbose || (is_terminal(2) && !(is_terminal(1) && (json || summary)));
  Progress progress(watched && !settings.quiet, "texts");
  const Style style = Style::for_output();
  const size_t width = output_width();

  std::vector<std::string_view> views;
  std::vector<float> vectors;
  size_t truncated = 0;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    views.clear();
    for (const Input& input : block) views.push_back(input.a);
    vectors.resize(block.size() * dimension);
    const Matrix<float> rows(vectors.data(), block.size(), dimension);
    const std::vector<EmbeddedRow> report = model.embed(views, rows);
    if (npy) npy->add(vectors);
    for (size_t i = 0; i < block.size(); ++i) {
      truncated += report[i].truncated;
      if (json) print(to_json(rows[i], report[i], {.index = first + i, .text = block[i].a}) + "\n");
      if (summary) print(summary_line(block[i].a, rows[i], style, width));
    }
  });
  if (npy) npy->commit();
  progress.finish(inputs.count(), settings.npy ? fmt::format(", to {}", printable(*settings.npy)) : "");
  if (truncated > 0 && !settings.quiet) {
    const size_t most = model.model().config().max_tokens();
    warn(fmt::format("{} of {} texts had more than {} tokens and were cut", truncated, inputs.count(),
                     model.max_length()),
         model.max_length() < most
             ? fmt::format("--max-length {}, the most this model takes, or shorter texts", most)
             : "shorter texts; bertie tokenize --max-length N --stride N shows windows over long ones");
  }
  return 0;
}

}  // namespace bertie::cli
