#include "cli/terminal/steps_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/output.h"
#include "cli/terminal/attention_text.h"
#include "cli/terminal/matrix_text.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr size_t kWholeText = 20;  // tokens; of longer texts the worked token and its top keys are shown
constexpr size_t kTopKeys = 6;
constexpr size_t kSmall = 8;    // rows and columns of a matrix that is shown whole, such as W^Q
constexpr size_t kFormula = 6;  // keys that a softmax is written out for; above, it is a table

bool all_zero(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return x == 0; });
}

int decimals_of(std::span<const float> numbers) { return decimals_for({numbers.data(), 1, numbers.size()}); }

std::vector<size_t> by_weight(const AttentionSteps& s, size_t query) {
  std::vector<size_t> order = all_of(s.n());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return s.weights(query, a) > s.weights(query, b); });
  return order;
}

// Lines are painted one by one: no color reaches over a line's end.
void each_line(std::string_view lines, const auto& use) {
  for (size_t end; (end = lines.find('\n')) != lines.npos; lines.remove_prefix(end + 1))
    use(std::string(lines.substr(0, end)));
}

class Story {
 public:
  Story(const AttentionSteps& steps, const StepsView& view, const Style& style, size_t width)
      : s_(steps), view_(view), style_(style), width_(width), q_(view.query) {
    labels_ = unique_labels(printable_all(s_.tokens));
    const std::vector<size_t> order = by_weight(s_, q_);
    k_ = order[0];
    if (s_.n() > kWholeText) {
      tokens_ = Shown(order.begin(), order.begin() + kTopKeys);
      tokens_.push_back(q_);
      std::sort(tokens_.begin(), tokens_.end());
      tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
    }
  }

  std::string tell() {
    input();
    projections();
    scores();
    scaled();
    softmax();
    output();
    if (!view_.brief) all_heads();
    return std::move(out_);
  }

 private:
  std::string quoted(size_t token) const { return '"' + short_label(labels_[token], 20) + '"'; }
  // What scores are divided by: √d_k; but some GPT-2s do without the root, or take the layer's number too.
  std::string divisor() const {
    const auto is_whole = [](double x) { return x > 0.5 && std::abs(x - std::round(x)) < 1e-4; };
    const double all = 1 / s_.scale, rest = all / std::sqrt(double(s_.q.cols));
    if (!is_whole(rest)) return fmt::format("{}", is_whole(all) ? std::round(all) : all);
    return rest < 1.5 ? fmt::format("√{}", s_.q.cols) : fmt::format("({:.0f}·√{})", rest, s_.q.cols);
  }

  void step(std::string formula, const Grid& made, std::string explanation) {
    const std::string shape = fmt::format("({})", shape_of(made));
    if (display_width(formula) + 3 + display_width(shape) <= width_ - 2)
      formula += "   " + shape;
    else
      explanation = shape + " " + explanation;
    std::string before = '\n' + style_.accent(fmt::format("{}", ++number_)) + ' ';
    each_line(wrap(formula, width_ - 2), [&](const std::string& line) {
      out_ += std::exchange(before, "  ") + style_.bold(line) + '\n';
    });
    each_line(wrap(explanation, width_ - 2),
              [&](const std::string& line) { out_ += "  " + style_.dim(line) + '\n'; });
    out_ += '\n';
  }
  MatrixText rows(std::string name, const Grid& grid) const {  // a row for each token
    return {
        .name = std::move(name), .matrix = grid, .row_labels = labels_, .rows = tokens_, .marked_row = q_};
  }
  MatrixText square(const Grid& grid) const {
    MatrixText text = rows("", grid);
    text.column_labels = labels_;
    text.columns = tokens_;
    text.key_column = k_;
    if (!tokens_.empty()) text.rows = {q_};
    return text;
  }
  void show(std::initializer_list<MatrixText> matrices) {
    out_ += matrices_text({matrices.begin(), matrices.size()}, style_, width_);
  }
  void work(const SumText& sum) { out_ += sum_text(sum, style_, width_); }
  void line(std::string_view text) { out_ += "    " + wrap(text, width_, 6); }

  // Row `row` of x times column 0 of w, and the bias: an element of y.
  void work_product(std::string name, size_t row, const Grid& x, const Grid& w, std::span<const float> bias,
                    const Grid& y) {
    if (view_.brief) return;
    SumText sum{.name = std::move(name),
                .left_decimals = decimals_for(x),
                .right_decimals = decimals_for(w),
                .result = y(row, 0),
                .result_decimals = decimals_for(y)};
    for (size_t c = 0; c < x.cols; ++c) sum.terms.emplace_back(x(row, c), w(c, 0));
    if (!all_zero(bias)) sum.bias = bias[0], sum.bias_decimals = decimals_of(bias);
    work(sum);
  }

  void input() {
    step("X", s_.x,
         s_.ids.empty()  ? "what comes in: a row of numbers for each word"
         : s_.layer == 0 ? "what comes in: each token's embedding (word + position + type, normalized)"
                         : fmt::format("what comes in: the tokens as layer {} left them", s_.layer));
    show({rows("", s_.x)});
  }

  void projections() {
    const bool biased = !all_zero(s_.b_q) || !all_zero(s_.b_k) || !all_zero(s_.b_v);
    const std::string formula =
        biased ? "Q = X·W^Q + b^Q   K = X·W^K + b^K   V = X·W^V + b^V" : "Q = X·W^Q   K = X·W^K   V = X·W^V";
    step(formula, s_.q, "what each token asks for (query), what it offers (key), what it tells (value)");
    const bool small = s_.w_q.rows <= kSmall && std::max(s_.w_q.cols, s_.w_v.cols) <= kSmall;
    if (!view_.brief && small) {
      const std::vector<std::string> blank(s_.w_q.rows, std::string(widest_label(), ' '));
      show({{.name = "W^Q", .matrix = s_.w_q, .row_labels = blank},
            {.name = "W^K", .matrix = s_.w_k, .row_labels = blank},
            {.name = "W^V", .matrix = s_.w_v, .row_labels = blank}});
      if (biased) {
        const auto row = [](const std::vector<float>& b) {
          return Matrix<const float>(b.data(), 1, b.size());
        };
        show({{.name = "b^Q", .matrix = row(s_.b_q), .row_labels = blank},
              {.name = "b^K", .matrix = row(s_.b_k), .row_labels = blank},
              {.name = "b^V", .matrix = row(s_.b_v), .row_labels = blank}});
      }
      out_ += '\n';
    }
    show({rows("Q", s_.q), rows("K", s_.k), rows("V", s_.v)});
    if (view_.brief) return;
    out_ += '\n';
    if (!small)
      line(fmt::format("W^Q, W^K and W^V ({} each, {}this head's part) are in --json.", shape_of(s_.w_q),
                       biased ? "with biases; " : ""));
    work_product(fmt::format("{}, first number of Q", quoted(q_)), q_, s_.x, s_.w_q, s_.b_q, s_.q);
    work_product(fmt::format("{}, first number of K", quoted(k_)), k_, s_.x, s_.w_k, s_.b_k, s_.k);
    work_product(fmt::format("{}, first number of V", quoted(k_)), k_, s_.x, s_.w_v, s_.b_v, s_.v);
  }

  void scores() {
    step("Q·Kᵀ", s_.scores, "the scores: how well each query (row) meets each key (column)");
    show({square(s_.scores)});
    if (view_.brief) return;
    out_ += '\n';
    SumText sum{.name = fmt::format("{}·{}", quoted(q_), quoted(k_)),
                .left_decimals = decimals_for(s_.q),
                .right_decimals = decimals_for(s_.k),
                .result = s_.scores(q_, k_),
                .result_decimals = decimals_for(s_.scores)};
    for (size_t c = 0; c < s_.q.cols; ++c) sum.terms.emplace_back(s_.q(q_, c), s_.k(k_, c));
    work(sum);
  }

  void scaled() {
    step("Q·Kᵀ / " + divisor(), s_.scaled,
         divisor().find("√") == std::string::npos
             ? "this model does without √d_k, the root of a key's size"
             : "scaled by √d_k, the root of a key's size: the more numbers a key has, the larger its "
               "scores get, and softmax would turn into all or nothing");
    show({square(s_.scaled)});
    if (view_.brief) return;
    out_ += '\n';
    line(fmt::format("{}·{}: {} / {} = {} / {:.4f} = {}", quoted(q_), quoted(k_),
                     shown(s_.scores(q_, k_), decimals_for(s_.scores)), divisor(),
                     shown(s_.scores(q_, k_), decimals_for(s_.scores)), 1 / s_.scale,
                     shown(s_.scaled(q_, k_), decimals_for(s_.scaled))));
  }

  void softmax() {
    step(fmt::format("softmax(Q·Kᵀ / {})", divisor()), s_.weights,
         "each row becomes weights that sum to 1: who looks at whom");
    MatrixText weights = square(s_.weights);
    weights.shaded = true;
    show({weights});
    if (view_.brief) return;
    out_ += '\n';
    // e^(s − largest) gives the same weights where e^s would be astronomical, or nothing to four places.
    double largest = s_.scaled(q_, 0), total = 0;
    for (size_t j = 0; j < s_.n(); ++j) largest = std::max(largest, double(s_.scaled(q_, j)));
    const double less = largest > 10 || largest < -2 ? largest : 0;
    const auto power = [&](size_t j) { return std::exp(double(s_.scaled(q_, j)) - less); };
    for (size_t j = 0; j < s_.n(); ++j) total += power(j);
    const int decimals = decimals_for(s_.scaled);
    std::string formula = fmt::format("{} looks at {}: ", quoted(q_), quoted(k_));
    if (s_.n() <= kFormula && less == 0) {
      formula += fmt::format("e^{} / (", shown(s_.scaled(q_, k_), decimals));
      for (size_t j = 0; j < s_.n(); ++j)
        formula += fmt::format("{}e^{}", j > 0 ? " + " : "", shown(s_.scaled(q_, j), decimals));
      formula += ')';
    } else {
      softmax_table(less, total, power);
    }
    const std::string quotient = fmt::format("{} / {} = {}", shown(power(k_), 4), shown(total, 4),
                                             shown(s_.weights(q_, k_), decimals_for(s_.weights)));
    if (formula.ends_with(": ")) return line(formula + quotient);
    const bool fits = 4 + display_width(formula) + 3 + display_width(quotient) <= width_;
    if (fits) return line(formula + " = " + quotient);
    line(formula);
    line("  = " + quotient);
  }

  // The worked token's row, turned: every key, or the top ones, from its score to its weight.
  void softmax_table(double less, double total, const auto& power) {
    const bool narrow = width_ < 72;
    const std::string exponent = less == 0 ? "e^scaled" : fmt::format("e^(scaled-{})", shown(less, 4));
    Table table =
        narrow ? Table({"key", less == 0 ? exponent : "e^(scaled-max)", "weight"}, "lrr")
               : Table({fmt::format("{} looks at", quoted(q_)), "score", "scaled", exponent, "weight", ""},
                       "lrrrrl");
    const auto add = [&](const std::string& key, const std::string& score, const std::string& scaled,
                         double e, double weight) {
      if (narrow)
        table.add({key, shown(e, 4), shown(weight, 4)});
      else
        table.add({key, score, scaled, shown(e, 4), shown(weight, 4), bar(float(weight), 12)});
    };
    const std::vector<size_t> keys = tokens_.empty() ? all_of(s_.n()) : by_weight(s_, q_);
    const size_t listed = tokens_.empty() ? s_.n() : kTopKeys;
    double others = total, others_weight = 1;
    for (size_t i = 0; i < listed; ++i) {
      const size_t j = keys[i];
      add(short_label(labels_[j], narrow ? kMostLabel : 20), shown(s_.scores(q_, j), 4),
          shown(s_.scaled(q_, j), 4), power(j), s_.weights(q_, j));
      others -= power(j), others_weight -= s_.weights(q_, j);
    }
    if (listed < s_.n())
      add(fmt::format("{} others", s_.n() - listed), "", "", std::max(others, 0.0),
          std::max(others_weight, 0.0));
    if (narrow)
      table.add({"sum", shown(total, 4), "1"});
    else
      table.add({"sum", "", "", shown(total, 4), "1", ""});
    each_line(table.text(style_, width_ - 4), [&](const std::string& line) { out_ += "    " + line + '\n'; });
    out_ += '\n';
  }

  void output() {
    step(fmt::format("softmax(Q·Kᵀ / {})·V", divisor()), s_.output,
         "the output: for each token a mix of what all tokens tell, by its weights");
    show({rows("", s_.output)});
    if (view_.brief) return;
    out_ += '\n';
    SumText sum{.name = fmt::format("{}, first number", quoted(q_)),
                .left_decimals = decimals_for(s_.weights),
                .right_decimals = decimals_for(s_.v),
                .result = s_.output(q_, 0),
                .result_decimals = decimals_for(s_.output)};
    const std::vector<size_t> order = tokens_.empty() ? all_of(s_.n()) : by_weight(s_, q_);
    for (size_t j : order) sum.terms.emplace_back(s_.weights(q_, j), s_.v(j, 0));
    if (!tokens_.empty()) sum.most_terms = sum.first_terms = kTopKeys;
    work(sum);
  }

  void all_heads() {
    const bool biased = !all_zero(s_.b_o);
    step(fmt::format("Concat(head 1{}{})·W^O{}",
                     s_.heads > 2   ? " … "
                     : s_.heads > 1 ? ", "
                                    : "",
                     s_.heads > 1 ? fmt::format("head {}", s_.heads) : "", biased ? " + b^O" : ""),
         s_.result,
         s_.heads > 1 ? "all heads do this with projections of their own; their outputs stand beside each "
                        "other, and W^O mixes them"
                      : "W^O mixes the numbers of the head");
    const bool small = s_.w_o.rows <= kSmall && s_.w_o.cols <= kSmall;
    if (small) {
      show({rows("Concat", s_.concatenated)});
      out_ += '\n';
      const std::vector<std::string> blank(s_.w_o.rows, std::string(widest_label(), ' '));
      show({{.name = "W^O", .matrix = s_.w_o, .row_labels = blank}});
      out_ += '\n';
    }
    show({rows("result", s_.result)});
    out_ += '\n';
    if (!small)
      line(fmt::format(
          "Columns {} to {} of Concat ({}) are the output of head {} above; all of it and W^O ({}) "
          "are in --json.",
          s_.place * s_.output.cols + 1, (s_.place + 1) * s_.output.cols, shape_of(s_.concatenated),
          s_.head + 1, shape_of(s_.w_o)));
    work_product(fmt::format("{}, first number", quoted(q_)), q_, s_.concatenated, s_.w_o, s_.b_o, s_.result);
  }

  size_t widest_label() const {
    size_t widest = 0;
    for (const std::string& label : labels_) widest = std::max(widest, display_width(label));
    return std::min(widest, kMostLabel);
  }

  const AttentionSteps& s_;
  StepsView view_;
  Style style_;
  size_t width_;
  size_t q_, k_ = 0;  // the query that is worked out, and the key it looks at most
  std::vector<std::string> labels_;
  Shown tokens_;  // those shown, empty for all
  std::string out_;
  int number_ = 0;
};

}  // namespace

std::string steps_text(const AttentionSteps& steps, const StepsView& view, const Style& style, size_t width) {
  return Story(steps, view, style, width).tell();
}

void print_json(const AttentionSteps& steps, const JsonInput& input) {
  write_json(steps, input, [](std::string_view piece) { print(piece); });
  print("\n");
}

}  // namespace bertie::cli
