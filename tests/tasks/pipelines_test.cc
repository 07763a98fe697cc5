// Every task as transformers' pipelines do it: labels, spans, entities, tokens and texts the same, scores to
// 1e-4.
#include "bertie/similarity.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::golden_cases;
using test::golden_task;
using test::golden_tasks;

constexpr float kScore = 1e-4f;

size_t number(const json& parameters, const char* key, size_t otherwise) {
  return parameters.contains(key) && !parameters[key].is_null() ? parameters[key].get<size_t>() : otherwise;
}

// transformers shows [CLS] and [SEP] where there are several masks. They are not part of the text.
std::string without_frame(std::string text, const Tokenizer& tokenizer, bool framed) {
  if (!framed) return text;
  const auto first = std::string(tokenizer.token(tokenizer.cls_id())),
             last = std::string(tokenizer.token(tokenizer.sep_id()));
  EXPECT_TRUE(text.starts_with(first) && text.ends_with(last)) << text;
  text = text.substr(first.size(), text.size() - first.size() - last.size());
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return text.substr(begin, end + 1 - begin);
}

void check_fill_mask(const TextModel& model, const json& one) {
  const json& p = one["parameters"];
  const auto fills =
      model
          .fill_mask(one["inputs"].get<std::string>(),
                     {.top = p["top_k"], .targets = p.value("targets", std::vector<std::string>())})
          .masks;
  const json expected = one["outputs"][0].is_array() ? one["outputs"] : json::array({one["outputs"]});
  ASSERT_EQ(fills.size(), expected.size());
  for (size_t m = 0; m < fills.size(); ++m) {
    ASSERT_EQ(fills[m].size(), expected[m].size());
    for (size_t k = 0; k < fills[m].size(); ++k) {
      EXPECT_EQ(fills[m][k].id, expected[m][k]["token"]);
      EXPECT_EQ(fills[m][k].token, expected[m][k]["token_str"].get<std::string>());
      EXPECT_EQ(fills[m][k].sequence,
                without_frame(expected[m][k]["sequence"], model.tokenizer(), fills.size() > 1));
      EXPECT_NEAR(fills[m][k].score, expected[m][k]["score"].get<float>(), kScore);
    }
  }
}

void check_next_sentence(const TextModel& model, const json& one) {
  EXPECT_NEAR(model
                  .next_sentence(one["inputs"]["text"].get<std::string>(),
                                 one["inputs"]["text_pair"].get<std::string>())
                  .is_next,
              one["outputs"]["is_next"].get<float>(), kScore);
}

void check_classify(const TextModel& model, const json& one) {
  const json &in = one["inputs"], &p = one["parameters"];
  const std::string function = p.value("function_to_apply", "");
  const Apply apply = function == "sigmoid" ? Apply::kSigmoid
                      : function == "none"  ? Apply::kNothing
                                            : Apply::kByProblem;
  const ClassifyOptions options{.apply = apply};
  auto labels = (in.is_string() ? model.classify(in.get<std::string>(), options)
                                : model.classify(in["text"].get<std::string>(),
                                                 in["text_pair"].get<std::string>(), options))
                    .labels;
  EXPECT_EQ(labels.size(), model.model().config().labels.size());
  const json expected = one["outputs"].is_array() ? one["outputs"] : json::array({one["outputs"]});
  labels.resize(std::min(labels.size(), number(p, "top_k", p.contains("top_k") ? labels.size() : 1)));
  ASSERT_EQ(labels.size(), expected.size());
  for (size_t k = 0; k < labels.size(); ++k) {
    EXPECT_EQ(labels[k].label, expected[k]["label"].get<std::string>());
    EXPECT_NEAR(labels[k].score, expected[k]["score"].get<float>(), kScore);
  }
}

Aggregation aggregation_of(const std::string& strategy) {
  return strategy == "none"      ? Aggregation::kNone
         : strategy == "simple"  ? Aggregation::kSimple
         : strategy == "first"   ? Aggregation::kFirst
         : strategy == "average" ? Aggregation::kAverage
                                 : Aggregation::kMax;
}

void check_tag(const TextModel& model, const json& one) {
  const json& p = one["parameters"];
  TagOptions options{.aggregation = aggregation_of(p["aggregation_strategy"]),
                     .keep_outside = p.contains("ignore_labels")};
  if (p.contains("stride")) options.stride = p["stride"].get<size_t>();
  const std::string text = one["inputs"];
  const auto entities = model.tag(text, options).entities;
  ASSERT_EQ(entities.size(), one["outputs"].size());
  const Encoding encoding = model.tokenizer().encode(text);
  for (size_t k = 0; k < entities.size(); ++k) {
    const Entity& e = entities[k];
    const json& expected = one["outputs"][k];
    EXPECT_EQ(e.label,
              options.aggregation == Aggregation::kNone ? expected["entity"] : expected["entity_group"]);
    EXPECT_EQ(e.word, expected["word"].get<std::string>());
    EXPECT_EQ(e.text, text_at(text, e.offset));
    EXPECT_EQ(e.offset.begin, expected["start"]);
    EXPECT_EQ(e.offset.end, expected["end"]);
    EXPECT_NEAR(e.score, expected["score"].get<float>(), kScore);
    if (options.aggregation == Aggregation::kNone) {
      EXPECT_EQ(e.first_token, expected["index"]);
    }
    EXPECT_EQ(encoding.offsets[e.first_token].begin, e.offset.begin);
    EXPECT_EQ(encoding.offsets[e.first_token + e.tokens - 1].end, e.offset.end);
  }
}

void check_answer(const TextModel& model, const json& one) {
  const json& p = one["parameters"];
  AnswerOptions options{.top = number(p, "top_k", 1),
                        .max_answer_tokens = number(p, "max_answer_len", 15),
                        .allow_no_answer = p.value("handle_impossible_answer", false),
                        .whole_words = p.value("align_to_words", true)};
  if (p.contains("doc_stride")) options.stride = p["doc_stride"].get<size_t>();
  if (p.contains("max_seq_len")) options.max_length = p["max_seq_len"].get<size_t>();
  const std::string context = one["inputs"]["context"];
  const auto answers = model.answer(one["inputs"]["question"].get<std::string>(), context, options).answers;
  const json expected = one["outputs"].is_array() ? one["outputs"] : json::array({one["outputs"]});
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t k = 0; k < answers.size(); ++k) {
    EXPECT_EQ(answers[k].text, expected[k]["answer"].get<std::string>());
    EXPECT_EQ(answers[k].offset.begin, expected[k]["start"]);
    EXPECT_EQ(answers[k].offset.end, expected[k]["end"]);
    EXPECT_EQ(text_at(context, answers[k].offset), answers[k].text);
    EXPECT_NEAR(answers[k].score, expected[k]["score"].get<float>(), kScore);
  }
}

void check_generate(const TextModel& model, const json& one) {
  const std::string prompt = one["inputs"];
  const Generation made = model.generate(prompt, {.max_new_tokens = one["parameters"]["max_new_tokens"]});
  EXPECT_EQ(made.ids, one["outputs"]["token_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(prompt + made.text, one["outputs"]["generated_text"].get<std::string>());
  EXPECT_EQ(made.finish_reason == FinishReason::kEndOfText, made.ids.back() == model.model().config().eos_id);
}

void check_similarity(const TextModel& model, const json& one) {
  EXPECT_NEAR(cosine(model.embed(one["inputs"]["text"].get<std::string>()).values,
                     model.embed(one["inputs"]["text_pair"].get<std::string>()).values),
              one["outputs"]["cosine"].get<float>(), kScore);
}

class Pipelines : public testing::TestWithParam<std::string> {
 protected:
  void check(void (*one_case)(const TextModel&, const json&)) {
    const TextModel loaded = load(golden_task(GetParam()), {.threads = 2});
    const json cases = golden_cases(GetParam());
    EXPECT_GE(cases.size(), 5u);
    for (const json& one : cases) {
      SCOPED_TRACE(one["inputs"].dump() + " " + one["parameters"].dump());
      one_case(loaded, one);
    }
  }
};

TEST_P(Pipelines, GiveTheSameResults) {
  const std::string task = GetParam().substr(0, GetParam().rfind('-'));
  if (task == "fill-mask") return check(check_fill_mask);
  if (task == "next-sentence") return check(check_next_sentence);
  if (task == "text-classification") return check(check_classify);
  if (task == "token-classification") return check(check_tag);
  if (task == "question-answering") return check(check_answer);
  if (task == "text-generation") return check(check_generate);
  if (task == "sentence-similarity") return check(check_similarity);
  FAIL() << "nobody checks " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Golden, Pipelines, testing::ValuesIn(golden_tasks()), [](const auto& name) {
  std::string out = name.param;
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
});

}  // namespace
}  // namespace bertie
