// What heads look at, against the definitions written out over TextModel::attend.
#include "bertie/heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "bertie/json.h"
#include "support/data.h"
#include "support/expect_error.h"

namespace bertie {
namespace {

std::filesystem::path golden(const std::string& name) {
  return test::source_dir() / "tests/golden/tasks" / name;
}

// Words with the numbers of those that they depend on.
ParsedSentence sentence(const std::vector<std::string>& words, const std::vector<size_t>& heads,
                        const std::vector<std::string>& relations) {
  ParsedSentence s{.words = {}, .line = 1};
  for (size_t i = 0; i < words.size(); ++i)
    s.words.push_back({.form = words[i], .tag = "X", .head = heads[i], .relation = relations[i]});
  return s;
}

const std::vector<ParsedSentence> kBank{
    sentence({"Anna", "came", "to", "Gothenburg", "."}, {2, 0, 4, 2, 2},
             {"nsubj", "root", "case", "obl", "punct"}),
    sentence({"The", "old", "harbour", "was", "near", "a", "bakery", ",", "and", "small", "."},
             {3, 3, 7, 7, 7, 7, 0, 10, 10, 7, 7},
             {"det", "amod", "nsubj", "cop", "case", "det", "root", "punct", "cc", "conj", "punct"})};

std::string joined(const ParsedSentence& s) {
  std::string out;
  for (const ParsedWord& w : s.words) out += (out.empty() ? "" : " ") + w.form;
  return out;
}

TEST(Heads, LookWhereTheDefinitionsSay) {
  for (const char* name : {"fill-mask-bert", "fill-mask-roberta", "text-generation-gpt2"}) {
    SCOPED_TRACE(name);
    const TextModel model = load(golden(name), {.threads = 2});
    const HeadsReport r = analyze_heads(model, kBank, {.least_count = 1});
    EXPECT_EQ(r.sentences, 2u);
    size_t tokens = 0;
    std::vector<HeadShares> want(r.layers * r.heads);
    for (const ParsedSentence& s : kBank) {
      const std::string text = joined(s);
      const Attention a = model.attend(text);
      tokens += a.n();
      for (size_t which = 0; which < want.size(); ++which) {
        const Matrix<const float> w = a.at(which / r.heads, which % r.heads);
        for (size_t i = 0; i < a.n(); ++i)
          for (size_t j = 0; j < a.n(); ++j) {
            const double p = w(i, j);
            const int32_t id = a.encoding.ids[j];
            if (id == model.tokenizer().cls_id()) want[which].cls += p;
            if (id == model.tokenizer().sep_id()) want[which].sep += p;
            const std::string_view at = text_at(text, a.encoding.offsets[j]);
            if (at == "." || at == "," || at == " ." || at == " ,") want[which].punctuation += p;
            if (j + 1 == i) want[which].previous += p;
            if (j == i + 1) want[which].next += p;
            if (j == i) want[which].self += p;
            if (p > 0) want[which].entropy -= p * std::log(p);
            want[which].distance += p * std::abs(double(i) - double(j));
          }
      }
    }
    EXPECT_EQ(r.tokens, tokens);
    for (size_t which = 0; which < want.size(); ++which)
      for (double HeadShares::*field :
           {&HeadShares::cls, &HeadShares::sep, &HeadShares::punctuation, &HeadShares::previous,
            &HeadShares::next, &HeadShares::self, &HeadShares::entropy, &HeadShares::distance})
        EXPECT_NEAR(r.shares[which].*field, want[which].*field / double(tokens), 1e-4);
  }
}

TEST(Heads, FindRelationsAsTheDefinitionsSay) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  const HeadsReport r = analyze_heads(model, kBank, {.least_count = 1});
  for (const RelationScore& score : r.relations) {
    SCOPED_TRACE(score.relation);
    size_t count = 0, best = 0, best_offset = 0;
    std::map<int, size_t> offsets;
    std::map<std::tuple<size_t, size_t, bool>, size_t> right;
    for (const ParsedSentence& s : kBank) {
      const std::string text = joined(s);
      const Attention a = model.attend(text);
      // Each word's place in the text, and so its tokens.
      std::vector<std::vector<size_t>> pieces(s.words.size());
      size_t at = 0;
      for (size_t i = 0; i < s.words.size(); ++i) {
        for (size_t t = 0; t < a.n(); ++t)
          if (!a.encoding.special(t) && a.encoding.offsets[t].begin >= at &&
              a.encoding.offsets[t].end <= at + s.words[i].form.size())
            pieces[i].push_back(t);
        ASSERT_FALSE(pieces[i].empty());
        at += s.words[i].form.size() + 1;
      }
      for (size_t i = 0; i < s.words.size(); ++i) {
        if (s.words[i].relation != score.relation || s.words[i].head == 0) continue;
        ++count;
        best_offset = std::max(best_offset, ++offsets[int(s.words[i].head) - 1 - int(i)]);
        for (size_t l = 0; l < r.layers; ++l)
          for (size_t h = 0; h < r.heads; ++h) {
            const Matrix<const float> w = a.at(l, h);
            const auto between = [&](size_t from, size_t to) {
              double sum = 0;
              for (size_t f : pieces[from])
                for (size_t t : pieces[to]) sum += double(w(f, t)) / double(pieces[from].size());
              return sum;
            };
            for (bool from_head : {false, true}) {
              size_t most = SIZE_MAX;
              for (size_t j = 0; j < s.words.size(); ++j)
                if (j != i && (most == SIZE_MAX || (from_head ? between(j, i) > between(most, i)
                                                              : between(i, j) > between(i, most))))
                  most = j;
              best = std::max(best, right[{l, h, from_head}] += most + 1 == s.words[i].head);
            }
          }
      }
    }
    EXPECT_EQ(score.count, count);
    EXPECT_DOUBLE_EQ(score.accuracy, double(best) / double(count));
    EXPECT_EQ((right[{score.head.layer, score.head.head, score.from_head}]), best);
    ASSERT_EQ(score.by_head.size(), r.layers * r.heads);
    for (size_t l = 0; l < r.layers; ++l)
      for (size_t h = 0; h < r.heads; ++h)
        EXPECT_DOUBLE_EQ(score.by_head[l * r.heads + h],
                         double(std::max(right[{l, h, false}], right[{l, h, true}])) / double(count));
    EXPECT_DOUBLE_EQ(score.offset_accuracy, double(best_offset) / double(count));
    EXPECT_EQ(offsets[score.offset], best_offset);
    ASSERT_TRUE(score.random_accuracy);
    EXPECT_TRUE(*score.random_accuracy >= 0 && *score.random_accuracy <= 1);
  }
  EXPECT_EQ(r.relations.size(), 9u);  // without root
  EXPECT_EQ(r.relations[0].relation, "punct");
  EXPECT_EQ(analyze_heads(model, kBank, {.random_model = false, .least_count = 2}).relations.size(), 4u);
}

TEST(Heads, DivergeByJensenAndShannon) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 2});
  const std::vector<std::string> texts{"Anna came to Gothenburg."};
  const Attention a = model.attend(texts[0]);
  const HeadsReport r = analyze_heads(model, texts, {.similarity_rows = a.n()});
  const size_t n = r.layers * r.heads;
  ASSERT_EQ(r.divergence.size(), n * n);
  for (size_t x = 0; x < n; ++x)
    for (size_t y = 0; y < n; ++y) {
      double sum = 0;
      for (size_t i = 0; i < a.n(); ++i)
        for (size_t j = 0; j < a.n(); ++j) {
          const double p = a.at(x / r.heads, x % r.heads)(i, j), q = a.at(y / r.heads, y % r.heads)(i, j),
                       m = (p + q) / 2;
          if (p > 0) sum += 0.5 * p * std::log(p / m);
          if (q > 0) sum += 0.5 * q * std::log(q / m);
        }
      EXPECT_NEAR(r.divergence[x * n + y], sum / double(a.n()), 1e-5) << x << " " << y;
    }
  EXPECT_TRUE(r.relations.empty());
}

TEST(Heads, SwitchedOffOneByOneChangeTheLoss) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  size_t last = 0, steps = 0;
  const HeadsReport r =
      analyze_heads(model, kBank, {.ablation_tokens = 1000, .progress = [&](size_t done, size_t of) {
                                     EXPECT_GT(done, last), last = done, steps = of;
                                   }});
  EXPECT_EQ(last, steps);
  ASSERT_TRUE(r.ablation);
  EXPECT_GT(r.ablation->tokens, 2u);
  ASSERT_EQ(r.ablation->without.size(), r.layers * r.heads);
  for (size_t i = 0; i < r.ablation->without.size(); ++i) {
    EXPECT_NE(r.ablation->without[i], r.ablation->loss);
    const HeadsReport off = analyze_heads(model.without({{i / r.heads, i % r.heads}}), kBank,
                                          {.random_model = false, .ablation_tokens = 1000});
    EXPECT_DOUBLE_EQ(off.ablation->loss, r.ablation->without[i]);
    EXPECT_DOUBLE_EQ(off.ablation->without[i], r.ablation->without[i]);  // off already
  }
  EXPECT_NE(to_json(r, "m").find("\"loss_without\""), std::string::npos);
}

TEST(Heads, TellWhomAPronounMeansAsTheDefinitionSays) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 2});
  // Places of the pronoun and of two names.
  const auto example = [](const std::string& text, const std::string& pronoun, const std::string& a,
                          const std::string& b, bool is_a) {
    const auto place = [&](const std::string& word) {
      const auto at = uint32_t(text.find(word));
      return Offset{at, at + uint32_t(word.size())};
    };
    return PronounExample{text, place(pronoun), place(a), place(b), is_a};
  };
  const std::vector<PronounExample> examples{
      example("Anna Lindqvist met Maria when she came.", "she", "Anna Lindqvist", "Maria", true),
      example("In Gothenburg Karl saw that Erik lost his old boat.", "his", "Karl", "Erik", false),
      example("He came to the harbour, and Olaf knew Peter.", "He", "Olaf", "Peter", true)};
  const CoreferenceScore score = judge_coreference(model, examples);
  EXPECT_EQ(score.count, 3u);
  EXPECT_DOUBLE_EQ(score.nearest_accuracy, 2.0 / 3);  // the first is nearer to Maria
  size_t best = 0, reported = 0;
  for (size_t l = 0; l < 2; ++l)
    for (size_t h = 0; h < 2; ++h)
      for (const bool from_name : {false, true}) {
        size_t right = 0;
        for (const PronounExample& e : examples) {
          const Attention a = model.attend(e.text);
          const auto tokens = [&](Offset at) {
            std::vector<size_t> out;
            for (size_t t = 0; t < a.n(); ++t)
              if (!a.encoding.special(t) && a.encoding.offsets[t].begin >= at.begin &&
                  a.encoding.offsets[t].end <= at.end)
                out.push_back(t);
            return out;
          };
          const auto look = [&](Offset from, Offset to) {
            double sum = 0;
            for (size_t i : tokens(from))
              for (size_t j : tokens(to)) sum += double(a.at(l, h)(i, j)) / double(tokens(from).size());
            return sum;
          };
          const bool says_a = from_name ? look(e.a, e.pronoun) > look(e.b, e.pronoun)
                                        : look(e.pronoun, e.a) > look(e.pronoun, e.b);
          right += says_a == e.is_a;
        }
        best = std::max(best, right);
        if (score.head == WhichHead{l, h} && score.from_name == from_name) reported = right;
      }
  EXPECT_DOUBLE_EQ(score.accuracy, double(best) / 3);
  EXPECT_EQ(reported, best);
  EXPECT_TRUE(score.random_accuracy);
  EXPECT_FALSE(judge_coreference(model, examples, {.random_model = false}).random_accuracy);
  EXPECT_THROW(judge_coreference(model, {}), Error);
}

TEST(Heads, HaveTheImportanceThatTheirSlopeSays) {
  const TextModel model = load(golden("text-classification-bert"), {.threads = 1});
  const std::vector<std::string> texts{"Anna came to Gothenburg.", "The harbour is old, and small."};
  const std::vector<std::string>& labels = model.model().config().labels;
  const ImportanceOptions options{.labels = {labels[0], labels[1]}, .scaled = false};
  const std::vector<double> importance = head_importance(model, texts, options);
  const Config& config = model.model().config();
  ASSERT_EQ(importance.size(), config.depth() * config.heads);
  // The mean over texts of each one's own slope: twice the same text is that text.
  const auto one = [&](size_t i) {
    return head_importance(model, std::vector<std::string>{texts[i]},
                           {.labels = {options.labels[i]}, .scaled = false});
  };
  const std::vector<double> first = one(0), second = one(1);
  for (size_t i = 0; i < importance.size(); ++i) {
    EXPECT_NEAR(importance[i], (first[i] + second[i]) / 2, 1e-9);
    EXPECT_GT(importance[i], 0);
  }
  const std::vector<double> scaled = head_importance(model, texts, {.labels = options.labels});
  double squares = 0;
  for (size_t h = 0; h < config.heads; ++h) squares += scaled[h] * scaled[h];
  EXPECT_NEAR(squares, 1, 1e-9);
  EXPECT_NEAR(scaled[0] / scaled[1], importance[0] / importance[1], 1e-9);
  EXPECT_THROW(head_importance(model, texts, {.labels = {labels[0]}}), Error);
  EXPECT_THROW(head_importance(model, texts, {.labels = {"nonsense", labels[0]}}), Error);
  EXPECT_THROW(head_importance(model, texts), Error);  // it has no masked language model
}

TEST(Heads, OfNothingOrOfTooMuchAreAnError) {
  const TextModel model = load(golden("fill-mask-bert"), {.threads = 1});
  EXPECT_THROW(analyze_heads(model, std::vector<ParsedSentence>()), Error);
  std::string longer;
  for (size_t i = 0; i < 200; ++i) longer += "harbour ";
  EXPECT_THROW(analyze_heads(model, std::vector<std::string>{longer}), Error);
  EXPECT_EQ(analyze_heads(model, std::vector<std::string>{longer, "The harbour."}).too_long, 1u);
  EXPECT_THROW(analyze_heads(load(golden("text-classification-bert"), {.threads = 1}),
                             std::vector<std::string>{"The harbour."}, {.ablation_tokens = 10}),
               Error);
}

}  // namespace
}  // namespace bertie
