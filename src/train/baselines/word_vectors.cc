#include "train/baselines/word_vectors.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "bertie/model.h"
#include "bertie/tokenizer.h"
#include "io/safetensors.h"
#include "model/access.h"
#include "tasks/modules.h"

namespace bertie::baseline {
namespace {

class WordVectors {
 public:
  explicit WordVectors(const ModelFiles& files)
      : tokenizer_(Tokenizer::load(files)),
        model_(Model::load(files)),
        table_(weights_of(model_).word),
        vector_(size_t(table_.shape.at(1))) {}

  size_t width() const { return vector_.size(); }

  void mean_of(std::string_view text, std::span<float> to) {
    tokenizer_.encode_into(text, {.add_special_tokens = false}, encoding_);
    for (const int32_t id : encoding_.ids) {
      io::to_float(table_, size_t(id) * width(), vector_);
      for (size_t c = 0; c < width(); ++c) to[c] += vector_[c];
    }
    for (float& v : to) v /= float(std::max<size_t>(encoding_.size(), 1));
  }

 private:
  Tokenizer tokenizer_;
  Model model_;
  const io::TensorInfo& table_;  // (V, width)
  std::vector<float> vector_;
  Encoding encoding_;
};

}  // namespace

FeatureRows mean_word_vectors(const std::string& model, const Dataset& data) {
  WordVectors vectors(transformer_files(ModelFiles(model)));
  const bool pairs = data.kind == TaskKind::kPair;
  const size_t width = vectors.width();
  FeatureRows out{.rows = data.texts.size(), .columns = pairs ? 4 * width : width};
  out.values.resize(out.rows * out.columns);
  for (size_t r = 0; r < out.rows; ++r) {
    const std::span<float> row = std::span(out.values).subspan(r * out.columns, out.columns);
    vectors.mean_of(data.texts[r].a, row.first(width));
    if (!pairs) continue;
    vectors.mean_of(data.texts[r].b, row.subspan(width, width));
    for (size_t c = 0; c < width; ++c) {
      const float u = row[c], v = row[width + c];
      row[2 * width + c] = std::abs(u - v), row[3 * width + c] = u * v;
    }
  }
  return out;
}

void standardize(FeatureRows& train, FeatureRows& dev) {
  const size_t columns = train.columns;
  std::vector<double> means(columns), factors(columns);
  const auto for_all = [columns](auto& rows, const auto& visit) {
    for (size_t r = 0; r < rows.rows; ++r)
      for (size_t c = 0; c < columns; ++c) visit(c, rows.values[r * columns + c]);
  };
  for_all(train, [&](size_t c, float value) { means[c] += double(value) / double(train.rows); });
  for_all(train, [&](size_t c, float value) {
    factors[c] += (double(value) - means[c]) * (double(value) - means[c]) / double(train.rows);
  });
  for (size_t c = 0; c < columns; ++c) {
    const double deviation = std::sqrt(factors[c]);
    // A column of equal numbers has a deviation of rounding errors.
    const double scale = deviation * std::sqrt(double(columns));
    factors[c] = deviation > 1e-7 * std::abs(means[c]) ? 1 / scale : 0;
  }
  for (FeatureRows* rows : {&train, &dev})
    for_all(*rows, [&](size_t c, float& value) { value = float((double(value) - means[c]) * factors[c]); });
}

}  // namespace bertie::baseline
