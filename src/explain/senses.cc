#include "bertie/senses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"
#include "bertie/similarity.h"
#include "bertie/utf8.h"
#include "io/quote.h"
#include "tasks/text_model_state.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

// A text's letters, small, a code point each.
std::u32string small_letters(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const text::Mapped small = text::lower(point.value);
    out += char32_t(small.count == 1 ? small.points[0] : point.value);
    text.remove_prefix(point.length);
  }
  return out;
}

// The same without accents.
std::u32string plain_letters(std::u32string text) {
  for (char32_t& c : text) c = text::decompose(c).points[0];
  return text;
}

bool in_word(char32_t c) { return !text::is_whitespace(c) && (text::flags(c) & text::kPunct) == 0; }
// Whether a word may end between these two: Chinese, Japanese and Korean are written without spaces.
bool is_border(char32_t left, char32_t right) {
  return !in_word(left) || !in_word(right) || (text::flags(left) & text::kCjk) != 0 ||
         (text::flags(right) & text::kCjk) != 0;
}

// Where the word stands, and nothing but the word.
std::vector<Offset> exact_places(const std::u32string& text, const std::u32string& word) {
  std::vector<Offset> places;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) {
    const size_t end = at + word.size();
    if ((at == 0 || is_border(text[at - 1], text[at])) &&
        (end == text.size() || is_border(text[end - 1], text[end])))
      places.push_back({uint32_t(at), uint32_t(end)});
  }
  return places;
}

// Whether a word is another with an English ending: banks, carries, stopped, taking.
bool has_ending(std::u32string_view longer, std::u32string_view word) {
  static constexpr std::u32string_view kEndings[] = {U"s", U"es", U"d", U"ed", U"n", U"en", U"ing"};
  static constexpr std::u32string_view kAfterY[] = {U"ies", U"ied"}, kAfterDouble[] = {U"ed", U"en", U"ing"},
                                       kAfterE[] = {U"ing"};
  if (word.size() < 2 || longer.size() <= word.size() - 1) return false;
  const std::u32string_view stem = word.substr(0, word.size() - 1);
  const char32_t last = word.back();
  if (!longer.starts_with(stem)) return false;
  const auto ends = [&](size_t from, const auto& endings) {
    return std::ranges::find(endings, longer.substr(from)) != std::end(endings);
  };
  if (last == U'y' && ends(stem.size(), kAfterY)) return true;
  if (last == U'e' && ends(stem.size(), kAfterE)) return true;
  if (longer[stem.size()] != last) return false;
  if (ends(word.size(), kEndings)) return true;
  return longer.size() > word.size() && longer[word.size()] == last && ends(word.size() + 1, kAfterDouble);
}

std::vector<Offset> places_of_forms(const std::u32string& text, const std::u32string& word) {
  std::vector<Offset> places;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    for (end = at; end < text.size() && in_word(text[end]);) ++end;
    const auto one = std::u32string_view(text).substr(at, end - at);
    if (has_ending(one, word) || has_ending(word, one)) places.push_back({uint32_t(at), uint32_t(end)});
  }
  return places;
}

// The word itself; where it is not, the same with other accents; where that is not, its forms.
std::vector<Offset> places_of(const std::u32string& text, const std::u32string& word) {
  std::vector<Offset> places = exact_places(text, word);
  if (places.empty()) places = exact_places(plain_letters(text), plain_letters(word));
  return places.empty() ? places_of_forms(text, word) : places;
}

// The mean over the tokens that are a part of the place.
void add_vector(const Encoding& encoding, const Output& output, const Offset& place, size_t layer,
                float* out) {
  const Matrix<const float> states = output.hidden_states[layer];
  size_t count = 0;
  for (size_t t = 0; t < encoding.size(); ++t) {
    if (encoding.special(t) || encoding.offsets[t].end <= place.begin ||
        encoding.offsets[t].begin >= place.end)
      continue;
    for (size_t c = 0; c < states.cols(); ++c) out[c] += states(t, c);
    ++count;
  }
  for (size_t c = 0; c < states.cols(); ++c) out[c] /= float(std::max<size_t>(count, 1));
}

// The mean silhouette of groups, from all places' cosines.
double silhouette_of(const std::vector<float>& alike, const std::vector<size_t>& groups) {
  const size_t n = groups.size();
  const size_t count = groups.empty() ? 0 : *std::ranges::max_element(groups) + 1;
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> distance(count);
    std::vector<size_t> others(count);
    for (size_t j = 0; j < n; ++j)
      if (j != i) distance[groups[j]] += 1 - double(alike[i * n + j]), ++others[groups[j]];
    if (others[groups[i]] == 0) continue;  // alone: 0
    const double inside = distance[groups[i]] / double(others[groups[i]]);
    double nearest = INFINITY;
    for (size_t g = 0; g < count; ++g)
      if (g != groups[i] && others[g] > 0) nearest = std::min(nearest, distance[g] / double(others[g]));
    const double larger = std::max(inside, nearest);
    if (std::isfinite(nearest) && larger > 0) sum += (nearest - inside) / larger;
  }
  return n == 0 ? 0 : sum / double(n);
}

}  // namespace

Matrix<const float> Senses::at(size_t layer) const {
  if (layer > layers)
    throw Error(fmt::format("no layer {}: there are 0 (embeddings) to {}", layer, layers), "", "layer");
  return {vectors.data() + layer * places.size() * dimension, places.size(), dimension};
}

std::vector<float> Senses::cosines(size_t layer) const { return similarity(at(layer), at(layer)); }

float Senses::cosine(size_t layer, size_t i, size_t j) const {
  const Matrix<const float> rows = at(layer);
  if (std::max(i, j) >= places.size())
    throw Error(fmt::format("no place {}: there are {}", std::max(i, j), places.size()));
  return bertie::cosine(rows[i], rows[j]);
}

double Senses::silhouette(size_t layer, const std::vector<size_t>& groups) const {
  return silhouette_of(cosines(layer), groups);
}

std::vector<size_t> Senses::clusters(size_t layer) const {
  const size_t n = places.size();
  const std::vector<float> alike = cosines(layer);
  std::vector<size_t> group(n), best;
  std::iota(group.begin(), group.end(), size_t{0});
  if (n < 3) return group;
  // Sums of the cosines between groups; a group that was joined to another has no size.
  std::vector<double> sum(alike.begin(), alike.end());
  std::vector<size_t> size(n, 1);
  double best_silhouette = -INFINITY;
  const auto numbered = [&] {  // in the order they come
    std::vector<size_t> names, out;
    for (const size_t g : group) {
      if (std::ranges::find(names, g) == names.end()) names.push_back(g);
      out.push_back(size_t(std::ranges::find(names, g) - names.begin()));
    }
    return out;
  };
  for (size_t left = n - 1; left >= 2; --left) {
    size_t a = 0, b = 0;
    double nearest = -INFINITY;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i + 1; j < n; ++j)
        if (size[i] > 0 && size[j] > 0 && sum[i * n + j] / double(size[i] * size[j]) > nearest)
          nearest = sum[i * n + j] / double(size[i] * size[j]), a = i, b = j;
    for (size_t k = 0; k < n; ++k) {
      sum[a * n + k] += sum[b * n + k];
      sum[k * n + a] = sum[a * n + k];
    }
    size[a] += std::exchange(size[b], 0);
    std::ranges::replace(group, b, a);
    const std::vector<size_t> groups = numbered();
    if (const double s = silhouette_of(alike, groups); s > best_silhouette)
      best_silhouette = s, best = groups;
  }
  return best;
}

size_t Senses::clearest_layer() const {
  if (places.size() < 3) return layers;
  size_t best = layers;
  double most = -INFINITY;
  for (size_t layer = 1; layer <= layers; ++layer)
    if (const double s = silhouette(layer, clusters(layer)); s >= most) most = s, best = layer;
  return best;
}

std::vector<float> Senses::plane(size_t layer) const {
  const Matrix<const float> rows = at(layer);
  const size_t n = places.size();
  std::vector<double> mean(dimension), products(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; c < dimension; ++c) mean[c] += double(rows(i, c)) / double(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t c = 0; c < dimension; ++c)
        products[i * n + j] += (double(rows(i, c)) - mean[c]) * (double(rows(j, c)) - mean[c]);
  // The two largest eigenvectors of the products, by powers; the places are their numbers times √eigenvalue.
  std::vector<float> out(n * 2);
  for (size_t axis = 0; axis < 2; ++axis) {
    std::vector<double> v(n), next(n);
    for (size_t i = 0; i < n; ++i) v[i] = i % 2 == 0 ? 1 + double(i) : -double(i) / 2;
    double value = 0;
    for (size_t step = 0; step < 500; ++step) {
      for (size_t i = 0; i < n; ++i) next[i] = std::inner_product(v.begin(), v.end(), &products[i * n], 0.0);
      value = std::sqrt(std::inner_product(next.begin(), next.end(), next.begin(), 0.0));
      if (!(value > 1e-12)) break;
      for (size_t i = 0; i < n; ++i) v[i] = next[i] / value;
    }
    if (!(value > 1e-12)) break;
    for (size_t i = 0; i < n; ++i) out[2 * i + axis] = float(v[i] * std::sqrt(value));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) products[i * n + j] -= value * v[i] * v[j];
  }
  return out;
}

Senses senses(const TextModel& model, std::string_view word, const Texts& texts, size_t most_places) {
  const std::u32string wanted = small_letters(word);
  if (wanted.empty() || !std::ranges::any_of(wanted, in_word))
    throw Error("there is no word to look for", "a word of letters or digits, such as bank", "word");
  const Config& config = model.model().config();
  Senses out{.places = {}, .layers = config.depth(), .dimension = 0, .vectors = {}};
  std::vector<std::vector<float>> by_layer(out.layers + 1);
  const auto worker = TextModelAccess::worker(model);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Offset> places = places_of(small_letters(texts[i]), wanted);
    if (places.empty())
      throw Error(
          fmt::format("text {} does not have the word {}: {}", i + 1, io::quote(word), io::quote(texts[i])),
          "texts that have it, in small letters or capitals");
    if (out.places.size() + places.size() > most_places)
      throw Error(fmt::format("the word {} stands in more than {} places", io::quote(word), most_places),
                  "fewer texts", "texts");
    const Encoding encoding = model.tokenizer().encode(texts[i]);
    if (encoding.size() > config.max_tokens())
      throw Error(fmt::format("text {} has {} tokens, but the model has positions for {}", i + 1,
                              encoding.size(), config.max_tokens()),
                  "a shorter text");
    const int32_t offsets[2] = {0, int32_t(encoding.size())};
    const Output& output = worker->run.forward(
        {.ids = encoding.ids, .types = encoding.types, .offsets = offsets}, {.hidden_states = true});
    check_finite(output.last_hidden);
    out.dimension = output.last_hidden.cols();
    const CodePoints points(texts[i]);
    for (const Offset& place : places) {
      for (size_t layer = 0; layer <= out.layers; ++layer) {
        by_layer[layer].resize(by_layer[layer].size() + out.dimension);
        add_vector(encoding, output, place, layer,
                   by_layer[layer].data() + by_layer[layer].size() - out.dimension);
      }
      out.places.push_back({.text = i, .offset = place, .word = std::string(points.at(place))});
    }
  }
  for (const std::vector<float>& layer : by_layer)
    out.vectors.insert(out.vectors.end(), layer.begin(), layer.end());
  return out;
}

Senses senses(const TextModel& model, std::string_view word, TextList texts) {
  return senses(model, word, Texts(texts));
}

std::vector<Offset> places_of_word(std::string_view text, std::string_view word) {
  const std::u32string wanted = small_letters(word);
  return wanted.empty() ? std::vector<Offset>() : places_of(small_letters(text), wanted);
}

}  // namespace bertie
