// Every task as transformers' pipelines do it: labels, spans, entities, tokens and texts the same, scores to
// 1e-4.
#include "bertie/encoder.h"
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

void check_fill_mask(Pipeline& pipeline, const json& one) {
  const json& p = one["parameters"];
  const std::vector<std::string> targets = p.value("targets", std::vector<std::string>());
  const auto fills = pipeline.fill_mask(one["inputs"].get<std::string>(), p["top_k"], targets);
  const json expected = one["outputs"][0].is_array() ? one["outputs"] : json::array({one["outputs"]});
  ASSERT_EQ(fills.size(), expected.size());
  for (size_t m = 0; m < fills.size(); ++m) {
    ASSERT_EQ(fills[m].size(), expected[m].size());
    for (size_t k = 0; k < fills[m].size(); ++k) {
      EXPECT_EQ(fills[m][k].id, expected[m][k]["token"]);
      EXPECT_EQ(fills[m][k].token, expected[m][k]["token_str"]);
      EXPECT_EQ(fills[m][k].sequence, expected[m][k]["sequence"]);
      EXPECT_NEAR(fills[m][k].score, expected[m][k]["score"].get<float>(), kScore);
    }
  }
}

void check_next_sentence(Pipeline& pipeline, const json& one) {
  EXPECT_NEAR(pipeline.next_sentence(one["inputs"]["text"].get<std::string>(),
                                     one["inputs"]["text_pair"].get<std::string>()),
              one["outputs"]["is_next"].get<float>(), kScore);
}

void check_classify(Pipeline& pipeline, const json& one) {
  const json &in = one["inputs"], &p = one["parameters"];
  const std::string function = p.value("function_to_apply", "");
  const Apply apply = function == "sigmoid" ? Apply::kSigmoid
                      : function == "none"  ? Apply::kNothing
                                            : Apply::kByProblem;
  auto labels = in.is_string() ? pipeline.classify(in.get<std::string>(), apply)
                               : pipeline.classify(in["text"].get<std::string>(),
                                                   in["text_pair"].get<std::string>(), apply);
  EXPECT_EQ(labels.size(), pipeline.model().config().labels.size());
  const json expected = one["outputs"].is_array() ? one["outputs"] : json::array({one["outputs"]});
  labels.resize(std::min(labels.size(), number(p, "top_k", p.contains("top_k") ? labels.size() : 1)));
  ASSERT_EQ(labels.size(), expected.size());
  for (size_t k = 0; k < labels.size(); ++k) {
    EXPECT_EQ(labels[k].label, expected[k]["label"]);
    EXPECT_NEAR(labels[k].score, expected[k]["score"].get<float>(), kScore);
  }
}

Group group_of(const std::string& strategy) {
  return strategy == "none"      ? Group::kNone
         : strategy == "simple"  ? Group::kSimple
         : strategy == "first"   ? Group::kFirst
         : strategy == "average" ? Group::kAverage
                                 : Group::kMax;
}

void check_tag(Pipeline& pipeline, const json& one) {
  const json& p = one["parameters"];
  TagOptions options{.group = group_of(p["aggregation_strategy"]),
                     .keep_outside = p.contains("ignore_labels")};
  if (p.contains("stride")) options.stride = p["stride"].get<size_t>();
  const std::string text = one["inputs"];
  const auto entities = pipeline.tag(text, options);
  ASSERT_EQ(entities.size(), one["outputs"].size());
  const Encoding encoding = pipeline.tokenizer().encode(text);
  for (size_t k = 0; k < entities.size(); ++k) {
    const Entity& e = entities[k];
    const json& expected = one["outputs"][k];
    EXPECT_EQ(e.label, options.group == Group::kNone ? expected["entity"] : expected["entity_group"]);
    EXPECT_EQ(e.word, expected["word"]);
    EXPECT_EQ(e.place.begin, expected["start"]);
    EXPECT_EQ(e.place.end, expected["end"]);
    EXPECT_NEAR(e.score, expected["score"].get<float>(), kScore);
    if (options.group == Group::kNone) {
      EXPECT_EQ(e.first_token, expected["index"]);
    }
    EXPECT_EQ(encoding.offsets[e.first_token].begin, e.place.begin);
    EXPECT_EQ(encoding.offsets[e.first_token + e.tokens - 1].end, e.place.end);
  }
}

void check_answer(Pipeline& pipeline, const json& one) {
  const json& p = one["parameters"];
  AnswerOptions options{.top = number(p, "top_k", 1),
                        .max_tokens = number(p, "max_answer_len", 15),
                        .may_be_empty = p.value("handle_impossible_answer", false),
                        .whole_words = p.value("align_to_words", true)};
  if (p.contains("doc_stride")) options.stride = p["doc_stride"].get<size_t>();
  if (p.contains("max_seq_len")) options.max_length = p["max_seq_len"].get<size_t>();
  const std::string context = one["inputs"]["context"];
  const auto answers = pipeline.answer(one["inputs"]["question"].get<std::string>(), context, options);
  const json expected = one["outputs"].is_array() ? one["outputs"] : json::array({one["outputs"]});
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t k = 0; k < answers.size(); ++k) {
    EXPECT_EQ(answers[k].text, expected[k]["answer"]);
    EXPECT_EQ(answers[k].place.begin, expected[k]["start"]);
    EXPECT_EQ(answers[k].place.end, expected[k]["end"]);
    EXPECT_EQ(text_at(context, answers[k].place), answers[k].text);
    EXPECT_NEAR(answers[k].score, expected[k]["score"].get<float>(), kScore);
  }
}

void check_generate(Pipeline& pipeline, const json& one) {
  const std::string prompt = one["inputs"];
  const Generated made = pipeline.generate(prompt, {.max_new_tokens = one["parameters"]["max_new_tokens"]});
  EXPECT_EQ(made.ids, one["outputs"]["token_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(prompt + made.text, one["outputs"]["generated_text"]);
  EXPECT_EQ(made.ended == Ended::kEndOfText, made.ids.back() == pipeline.model().config().eos_id);
}

void check_similarity(Encoder& encoder, const json& one) {
  EXPECT_NEAR(cosine(encoder.embed(one["inputs"]["text"].get<std::string>()),
                     encoder.embed(one["inputs"]["text_pair"].get<std::string>())),
              one["outputs"]["cosine"].get<float>(), kScore);
}

class Pipelines : public testing::TestWithParam<std::string> {
 protected:
  template <class Loaded>
  void check(void (*one_case)(Loaded&, const json&)) {
    Loaded loaded = Loaded::load(golden_task(GetParam()), 2);
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
