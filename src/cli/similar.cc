// bertie similar
#include <algorithm>

#include "bertie/similarity.h"
#include "cli/table.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

constexpr size_t kMostForMatrix = 100;

struct Hit {
  size_t index;
  float score;
  std::string text;
};

std::vector<float> embed(const TextModel& model, std::span<const Input> block, size_t& cut_texts) {
  const std::vector<std::string_view> texts = texts_of(block);
  std::vector<float> vectors(texts.size() * model.dimension());
  for (const EmbeddedRow& row : model.embed(texts, {vectors.data(), texts.size(), model.dimension()}))
    cut_texts += row.truncated;
  return vectors;
}

// The best texts so far; memory for no more than these.
class Best {
 public:
  explicit Best(size_t top) : top_(top) {}
  void add(Hit hit) {
    if (hits_.size() == top_) {
      if (!better(hit, hits_.front())) return;
      std::pop_heap(hits_.begin(), hits_.end(), better);
      hits_.pop_back();
    }
    hits_.push_back(std::move(hit));
    std::push_heap(hits_.begin(), hits_.end(), better);
  }
  std::vector<Hit> sorted() && {
    std::sort_heap(hits_.begin(), hits_.end(), better);
    return std::move(hits_);
  }

 private:
  static bool better(const Hit& a, const Hit& b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
  }
  size_t top_;
  std::vector<Hit> hits_;
};

void print_ranking(const Settings& settings, std::vector<Hit> hits) {
  Table table({"rank", "cosine", "", "line", "text"}, "rrlrl");
  for (size_t k = 0; k < hits.size(); ++k) {
    const Hit& hit = hits[k];
    if (settings.json) {
      print(to_json(Ranked{hit.index, hit.score}, k + 1, {.index = hit.index, .text = hit.text}) + "\n");
    } else {
      table.add({std::to_string(k + 1), fmt::format("{:.4f}", hit.score), pad(bar(hit.score, 12), 12),
                 std::to_string(hit.index + 1), printable(hit.text.substr(0, 400))});
    }
  }
  if (!settings.json) print(table.text(Style::for_output(), output_width()));
}

void print_matrix(const Settings& settings, std::span<const std::string> texts,
                  std::span<const float> cosines) {
  const size_t n = texts.size();
  if (settings.json) {
    for (size_t i = 0; i < n; ++i)
      print(scores_to_json(cosines.subspan(i * n, n), {.index = i, .text = texts[i]}) + "\n");
    return;
  }
  const Style style = Style::for_output();
  std::vector<std::string> labels;
  for (size_t i = 0; i < n; ++i) labels.push_back(fmt::format("{}", i + 1));
  print("cosine of each text with each other, in percent\n\n");
  print(heat_table(labels, {cosines.data(), n, n}, style, output_width()));
  print("\n");
  for (size_t i = 0; i < n; ++i)
    print("  {} {}\n", pad_left(labels[i], 3),
          cut(printable(texts[i].substr(0, 400)), output_width() - std::min<size_t>(output_width(), 7)));
}

}  // namespace

int similar_command(const Settings& settings) {
  Inputs inputs(settings);
  const TextModel model = load_model(settings);
  Progress progress = progress_of(settings, "texts");
  size_t cut_texts = 0;
  const size_t dimension = model.dimension();
  std::vector<float> query, all;
  if (settings.query) query = model.embed(*settings.query).values;
  Best best(settings.top.value_or(10));
  std::vector<std::string> texts;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    if (!settings.query && first + block.size() > kMostForMatrix)
      throw UsageError(
          fmt::format("more than {} texts are too many for a table of all pairs", kMostForMatrix),
          "--query TEXT ranks any number of texts");
    const std::vector<float> vectors = embed(model, block, cut_texts);
    const Matrix<const float> rows(vectors.data(), block.size(), dimension);
    for (size_t i = 0; i < block.size(); ++i)
      if (settings.query)
        best.add({first + i, cosine(query, rows[i]), std::move(block[i].a)});
      else
        texts.push_back(std::move(block[i].a));
    if (!settings.query) all.insert(all.end(), vectors.begin(), vectors.end());
  });
  progress.finish(inputs.count());
  if (settings.query) {
    print_ranking(settings, std::move(best).sorted());
  } else {
    const Matrix<const float> rows(all.data(), texts.size(), dimension);
    print_matrix(settings, texts, similarity(rows, rows));
  }
  if (cut_texts > 0 && !settings.quiet)
    warn(fmt::format("{} of {} texts had more than {} tokens and were cut", cut_texts, inputs.count(),
                     model.max_length()),
         "--max-length N, or shorter texts");
  return 0;
}

}  // namespace bertie::cli
