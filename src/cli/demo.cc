// bertie demo: "You found me", the worked example that everybody can check by hand.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "bertie/attention.h"
#include "cli/attend.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/table.h"

namespace bertie::cli {
namespace {

constexpr size_t kWords = 3, kSize = 4, kHead = 2;
const std::array<std::string, kWords> kNames = {"You", "found", "me"};
constexpr std::array<float, kWords* kSize> kX = {.1f, .2f, .3f, .4f,  .5f,  .6f,
                                                 .7f, .8f, .9f, 1.0f, 1.1f, 1.2f};
constexpr std::array<float, kWords* kHead> kQ = {.06f, .08f, .14f, .24f, .22f, .40f};
constexpr std::array<float, kWords* kHead> kK = {.04f, .08f, .12f, .20f, .20f, .32f};
constexpr std::array<float, kWords* kHead> kV = {.03f, .03f, .11f, .11f, .19f, .19f};
constexpr std::string_view kSentence = "The bank deposited the money near the river bank.";

struct Steps {
  std::array<float, kWords * kWords> scores{}, scaled{}, weights{};
  std::array<float, kWords * kHead> output{};
};

Steps work() {
  Steps s;
  const Matrix<const float> q(kQ.data(), kWords, kHead), k(kK.data(), kWords, kHead),
      v(kV.data(), kWords, kHead);
  for (size_t i = 0; i < kWords; ++i)
    for (size_t j = 0; j < kWords; ++j) {
      float score = 0;
      for (size_t d = 0; d < kHead; ++d) score += q(i, d) * k(j, d);
      s.scores[i * kWords + j] = score;
      s.scaled[i * kWords + j] = score / std::sqrt(float(kHead));
    }
  attention(q, k, v, {s.output.data(), kWords, kHead}, s.weights);
  return s;
}

void print_json(const Steps& s) {
  std::string out = "{\"words\":";
  append_json(out, kNames);
  const auto add = [&](std::string_view name, Matrix<const float> m) {
    out += fmt::format(",\"{}\":[", name);
    for (size_t r = 0; r < m.rows(); ++r) {
      if (r > 0) out += ',';
      append_json(out, m[r]);
    }
    out += ']';
  };
  add("x", {kX.data(), kWords, kSize});
  add("q", {kQ.data(), kWords, kHead});
  add("k", {kK.data(), kWords, kHead});
  add("v", {kV.data(), kWords, kHead});
  add("scores", {s.scores.data(), kWords, kWords});
  add("scaled", {s.scaled.data(), kWords, kWords});
  add("weights", {s.weights.data(), kWords, kWords});
  add("output", {s.output.data(), kWords, kHead});
  print("{}}}\n", out);
}

class Story {
 public:
  explicit Story(const Style& style) : style_(style) {}

  void step(std::string_view title, std::string_view explanation) {
    print("\n{} {}  {}\n\n", style_.accent(fmt::format("{}", ++number_)), style_.bold(title),
          style_.dim(explanation));
  }
  // Rows of numbers, several matrices beside each other.
  void rows(std::span<const std::string> headings, std::span<const Matrix<const float>> matrices,
            int decimals) {
    const size_t cell = size_t(decimals) + 4;
    std::string line(kIndent, ' ');
    for (size_t m = 0; m < matrices.size(); ++m)
      line += pad(headings.empty() ? "" : "  " + headings[m], matrices[m].cols() * cell + 3);
    if (!headings.empty()) print("{}\n", style_.dim(trimmed(line)));
    for (size_t r = 0; r < kWords; ++r) {
      line = "    " + pad(kNames[r], kIndent - 4);
      for (const auto& matrix : matrices) {
        for (float value : matrix[r]) line += fmt::format("{:>{}.{}f}", value, cell, decimals);
        line += "   ";
      }
      print("{}\n", trimmed(line));
    }
  }
  void word_headings(size_t cell) {
    std::string line(kIndent, ' ');
    for (const std::string& name : kNames) line += pad_left(name, cell);
    print("{}\n", style_.dim(line));
  }
  void squares(std::span<const float> values) {
    word_headings(8);
    const Matrix<const float> matrix(values.data(), kWords, kWords);
    rows({}, std::span(&matrix, 1), 4);
  }
  void weights(std::span<const float> values) {
    word_headings(13);
    for (size_t r = 0; r < kWords; ++r) {
      std::string line = "    " + pad(kNames[r], kIndent - 4);
      for (size_t c = 0; c < kWords; ++c) {
        const float w = values[r * kWords + c];
        line += fmt::format("  {} {:5.1f}%", heat(w, 4, style_), w * 100);
      }
      print("{}\n", line);
    }
  }

 private:
  static std::string trimmed(const std::string& line) {
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  static constexpr size_t kIndent = 12;
  Style style_;
  int number_ = 0;
};

void tell(const Steps& s, const Style& style) {
  print("{}\n", style.bold("\"You found me\": three words through self-attention"));
  Story story(style);
  const Matrix<const float> x(kX.data(), kWords, kSize), q(kQ.data(), kWords, kHead),
      k(kK.data(), kWords, kHead), v(kV.data(), kWords, kHead), output(s.output.data(), kWords, kHead);
  story.step("X", "each word is a row of numbers");
  story.rows({}, std::span(&x, 1), 1);
  story.step("Q, K, V", "what a word asks for, what it offers, what it tells");
  const std::string names[] = {"Q query", "K key", "V value"};
  const Matrix<const float> three[] = {q, k, v};
  story.rows(names, three, 2);
  story.step("Q·Kᵀ", "the scores: how well each query (row) meets each key (column)");
  story.squares(s.scores);
  story.step("Q·Kᵀ/√2", "scaled by the square root of a key's size, here 2");
  story.squares(s.scaled);
  story.step("softmax", "each row becomes weights that sum to 1: who looks at whom");
  story.weights(s.weights);
  story.step("weights·V", "the output: each word, now a mix of what all words tell");
  story.rows({}, std::span(&output, 1), 4);
}

void show_sentence(const Settings& settings, const Style& style) {
  Encoder encoder = load_encoder(settings);
  const Attention attention = encoder.attend(kSentence);
  const size_t layer = attention.layers - 1;
  const std::vector<float> mean = mean_over_heads(attention, layer);
  print("\n{}\n", style.bold(fmt::format("\"{}\"", kSentence)));
  print("{} layers of {} heads, each with {} × {} weights. Layer {}, mean of its heads:\n\n",
        attention.layers, attention.heads, attention.n(), attention.n(), layer + 1);
  print(heat_table(printable_tokens(attention), {mean.data(), attention.n(), attention.n()}, style,
                   std::min<size_t>(output_width(), 80)));
  print("\n  {}\n", heat_legend(style));
}

}  // namespace

int demo_command(const Settings& settings) {
  const Steps steps = work();
  if (settings.json) return print_json(steps), 0;
  const Style style = Style::for_output();
  tell(steps, style);
  if (has_model(settings)) {
    show_sentence(settings, style);
    print("\nYour turn: {}\n", style.accent(fmt::format("bertie attend {}--layer 1 --head 1 \"…\"",
                                                        settings.model ? "--model DIR " : "")));
  } else {
    print("\nA real model does this in every layer and head. See one at work:\n  {}\n",
          style.accent(fmt::format("bertie attend --model DIR \"{}\"", kSentence)));
  }
  return 0;
}

}  // namespace bertie::cli
