// bertie similar
#include <algorithm>

#include "bertie/similarity.h"
#include "bertie/vector_index.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr size_t kMostForMatrix = 100;

struct Hit {
  size_t index;
  float score;
  std::string text;
};

struct Found {
  std::vector<Hit> hits = {};
  bool truncated = false;  // the query
};

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

// `query`: which one it is of, where there may be several.
void print_ranking(const Settings& settings, std::vector<Hit> hits, std::optional<size_t> query = {}) {
  Table table({"rank", "cosine", "", "line", "text"}, "rrlrl");
  for (size_t k = 0; k < hits.size(); ++k) {
    const Hit& hit = hits[k];
    if (settings.json) {
      const JsonInput input{.index = hit.index, .text = hit.text};
      const std::string line = to_json(Ranked{hit.index, hit.score}, k + 1, input) + "\n";
      print(query ? fmt::format("{{\"query\":{},{}", *query, line.substr(1)) : line);
    } else {
      table.add({std::to_string(k + 1), fmt::format("{:.4f}", hit.score), pad(bar(hit.score, 12), 12),
                 std::to_string(hit.index + 1), printable(hit.text.substr(0, 400))});
    }
  }
  if (!settings.json) print(table.text(Style::for_output(), output_width()));
}

void print_matrix(const Settings& settings, std::span<const Input> texts, std::span<const float> cosines) {
  const size_t n = texts.size();
  if (settings.json) {
    for (size_t i = 0; i < n; ++i)
      print(scores_to_json(cosines.subspan(i * n, n), input_of(texts[i])) + "\n");
    return;
  }
  if (n == 0) return;
  const Style style = Style::for_output();
  std::vector<std::string> labels;
  for (size_t i = 0; i < n; ++i) labels.push_back(fmt::format("{}", texts[i].index + 1));
  print("cosine of each text with each other, in percent\n\n");
  print(heat_table(labels, {cosines.data(), n, n}, style, output_width()));
  print("\n");
  for (size_t i = 0; i < n; ++i)
    print("  {} {}\n", pad_left(labels[i], 3),
          cut(printable(texts[i].a.substr(0, 400)), output_width() - std::min<size_t>(output_width(), 7)));
}

// Queries through the model that the index was made with, and what is nearest to each.
int search_index(Settings settings) {
  const VectorIndex index(*settings.index);
  const VectorIndexOptions& made = index.options();
  if (!settings.model) settings.model = made.model;
  if (settings.query) settings.words.insert(settings.words.begin(), *settings.query);
  refuse({{settings.normalize, "normalize"}}, "for other vectors: those of an index always have length 1");
  refuse({{settings.prefix.has_value(), "prefix"}},
         "for texts that are still to be embedded: --query-prefix is the query's");
  Inputs inputs(settings);
  const TextModel model = load_model(settings);
  if (model.dimension() != index.dimension() ||
      (!made.pooling.empty() && name_of(model.pooling()) != made.pooling))
    throw UsageError(
        fmt::format("the index was made with {}, {} pooling and {} numbers; this model gives {}, {}",
                    printable(made.model), printable(made.pooling), index.dimension(),
                    name_of(model.pooling()), model.dimension()),
        fmt::format("the same model and --pooling {}", printable(made.pooling)));
  const std::string prefix = settings.query_prefix.value_or("");
  size_t truncated = 0, shown = 0;
  const int code = for_each_input(
      settings, inputs, {.what = "queries"}, model,
      [&](const TextModel& encoder, std::span<const Input> block, const ProgressCallback& progress) {
        EmbedOptions options = embed_options(settings, progress);
        options.prefix = prefix;
        std::vector<Found> all;
        for (const Embedding& query : encoder.embed(texts_of(block), options)) {
          Found& found = all.emplace_back();
          found.truncated = query.truncated;
          for (const Ranked& r : index.search(query.values, settings.top.value_or(10), encoder.threads()))
            found.hits.push_back({r.index, r.score, std::string(index.text(r.index))});
        }
        return all;
      },
      [&](const Input& input, Found& found) {
        truncated += found.truncated;
        if (!settings.json && !inputs.only_one()) print("{}{}\n", shown++ ? "\n" : "", printable(input.a));
        print_ranking(settings, std::move(found.hits), input.index);
      });
  warn_if_cut(settings, model, truncated, inputs.count(), "queries", model.max_length());
  return code;
}

}  // namespace

int similar_command(const Settings& settings) {
  if (settings.index) return search_index(settings);
  Inputs inputs(settings);
  const TextModel model = load_model(settings);
  size_t cut_texts = 0;
  std::vector<float> query, all;
  if (settings.query_prefix && !settings.query)
    throw UsageError("--query-prefix is for --query", "--query TEXT");
  if (settings.query) {
    EmbedOptions options = embed_options(settings);
    options.prefix = settings.query_prefix ? *settings.query_prefix : std::string_view();
    query = model.embed({*settings.query}, options)[0].values;
  }
  Best best(settings.top.value_or(10));
  std::vector<Input> texts;
  const int code = for_each_input(
      settings, inputs, {.shows_results = false}, model,
      [&](const TextModel& encoder, std::span<const Input> block, const ProgressCallback& progress) {
        return encoder.embed(texts_of(block), embed_options(settings, progress));
      },
      [&](const Input& input, const Embedding& embedding) {
        cut_texts += embedding.truncated;
        if (settings.query) return best.add({input.index, cosine(query, embedding.values), input.a});
        if (texts.size() == kMostForMatrix)
          throw UsageError(
              fmt::format("more than {} texts are too many for a table of all pairs", kMostForMatrix),
              "--query TEXT ranks any number of texts");
        texts.push_back(input);
        all.insert(all.end(), embedding.values.begin(), embedding.values.end());
      });
  if (settings.query) {
    print_ranking(settings, std::move(best).sorted());
  } else {
    const Matrix<const float> rows(all.data(), texts.size(), model.dimension());
    print_matrix(settings, texts, similarity(rows, rows));
  }
  warn_if_cut(settings, model, cut_texts, inputs.count(), "texts", model.max_length());
  return code;
}

}  // namespace bertie::cli
