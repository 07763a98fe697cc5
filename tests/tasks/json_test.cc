// Results as JSON: valid whatever the text, one schema, numbers to the last digit.
#include "bertie/json.h"

#include <fstream>

#include "support/temp_folder.h"
#include "tasks/golden_tasks.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

TextModel golden(const char* name) { return load(test::golden_task(name), {.threads = 1}); }

std::vector<std::string> keys_of(const std::string& line) {
  std::vector<std::string> keys;
  const ordered_json object = ordered_json::parse(line);
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST(Json, EveryResultBeginsWithItsInput) {
  const JsonInput text{.index = 3, .text = "harbour"}, pair{.index = 3, .a = "harbour", .b = "bank"};
  const TextModel encoder = golden("sentence-similarity-bert");
  EXPECT_EQ(keys_of(to_json(encoder.embed("harbour"), text)),
            (Keys{"index", "text", "vector", "token_count", "truncated"}));
  EXPECT_EQ(keys_of(to_json(encoder.attend("harbour", "bank"), pair)),
            (Keys{"index", "a", "b", "tokens", "ids", "types", "kept_layers", "shape", "weights"}));
  EXPECT_EQ(keys_of(to_json(golden("fill-mask-bert").fill_mask("[MASK]"), text)),
            (Keys{"index", "text", "masks", "token_count", "truncated"}));
  EXPECT_EQ(keys_of(to_json(golden("fill-mask-bert").score("harbour"), text)),
            (Keys{"index", "text", "log_probability", "perplexity", "scores", "token_count", "truncated"}));
  EXPECT_EQ(keys_of(to_json(golden("next-sentence-bert").next_sentence("harbour", "bank"), pair)),
            (Keys{"index", "a", "b", "is_next", "token_count", "truncated"}));
  EXPECT_EQ(keys_of(to_json(golden("text-classification-bert").classify("harbour"), text)),
            (Keys{"index", "text", "labels", "token_count", "truncated"}));
  EXPECT_EQ(keys_of(to_json(golden("token-classification-bert").tag("harbour"), text)),
            (Keys{"index", "text", "entities", "windows"}));
  EXPECT_EQ(keys_of(to_json(golden("question-answering-bert").answer("Who?", "Anna."),
                            {.index = 0, .question = "Who?", .context = "Anna."})),
            (Keys{"index", "question", "context", "answers", "windows", "question_truncated"}));
  EXPECT_EQ(
      keys_of(to_json(golden("text-generation-gpt2").generate("harbour", {.max_new_tokens = 2}), text)),
      (Keys{"index", "text", "generated", "ids", "finish_reason", "prompt_tokens", "prompt_truncated"}));
  EXPECT_EQ(keys_of(to_json(encoder.tokenizer().encode("harbour"), encoder.tokenizer(),
                            {.index = 0, .text = "harbour", .window = 2})),
            (Keys{"index", "window", "text", "tokens", "ids", "types", "offsets", "truncated"}));
  EXPECT_EQ(keys_of(to_json(Ranked{5, 0.5f}, 1, {.text = "harbour"})),
            (Keys{"index", "text", "rank", "score"}));
  EXPECT_EQ(keys_of(scores_to_json(std::vector<float>{1, 0.5f}, text)), (Keys{"index", "text", "scores"}));
  EXPECT_EQ(keys_of(to_json(explain_you_found_me(), {.index = 0, .text = "You found me"}))[2], "tokens");
  EXPECT_EQ(keys_of(to_json(encoder.embed("harbour")))[0], "vector") << "the input may be left out";
}

TEST(Json, OfSensesHasPlacesAndCosines) {
  const Senses s = senses(golden("sentence-similarity-bert"), "bank", {"The bank.", "A bank, a bank"});
  const json all = json::parse(to_json(s, "bank", 1));
  EXPECT_EQ(all["places"].size(), 3u);
  EXPECT_EQ(all["places"][2]["text"], 1);
  EXPECT_EQ(all["places"][2]["start"], 10);
  EXPECT_EQ(all["cosines"].size(), s.layers + 1);
  EXPECT_EQ(all["cosines"][1][0][2].get<float>(), s.cosines(1)[2]);
}

TEST(Json, SaysWhatTheResultsSay) {
  const TextModel tagger = golden("token-classification-bert");
  const std::string text = "Anna Lindqvist came to Gothenburg.";
  const Tagging tagging = tagger.tag(text);
  const json tags = json::parse(to_json(tagging));
  ASSERT_GT(tagging.entities.size(), 0u);
  ASSERT_EQ(tags["entities"].size(), tagging.entities.size());
  for (size_t i = 0; i < tagging.entities.size(); ++i) {
    const Entity& e = tagging.entities[i];
    EXPECT_EQ(tags["entities"][i], (json{{"label", e.label},
                                         {"score", tags["entities"][i]["score"]},
                                         {"text", text_at(text, e.offset)},
                                         {"word", e.word},
                                         {"start", e.offset.begin},
                                         {"end", e.offset.end},
                                         {"first_token", e.first_token},
                                         {"token_count", e.tokens}}));
    EXPECT_EQ(tags["entities"][i]["score"].get<float>(), e.score);
  }
  const Generation made = golden("text-generation-gpt2").generate("The", {.max_new_tokens = 3});
  const json generated = json::parse(to_json(made));
  EXPECT_EQ(generated["ids"], made.ids);
  EXPECT_EQ(generated["generated"], made.text);
  EXPECT_EQ(generated["finish_reason"], "max_new_tokens");
  EXPECT_EQ(generated["prompt_tokens"], made.prompt_tokens);
}

TEST(Json, NumbersReadBackAsTheyWere) {
  const TextModel model = golden("sentence-similarity-bert");
  const Embedding embedding = model.embed("The harbour is old.");
  EXPECT_EQ(json::parse(to_json(embedding))["vector"].get<std::vector<float>>(), embedding.values);
  const Attention attention = model.attend("The harbour is old.", {.layers = {1}});
  const json parsed = json::parse(to_json(attention));
  EXPECT_EQ(parsed["kept_layers"], json::array({2}));
  EXPECT_EQ(parsed["shape"], (json{1, attention.heads, attention.n(), attention.n()}));
  for (size_t h = 0; h < attention.heads; ++h)
    for (size_t i = 0; i < attention.n(); ++i)
      for (size_t j = 0; j < attention.n(); ++j)
        EXPECT_EQ(parsed["weights"][0][h][i][j].get<float>(), attention.at(1, h)(i, j));
}

TEST(Json, StringsAreValidWhateverCameIn) {
  const TextModel model = golden("text-classification-bert");
  for (const std::string& text : {std::string("a\"b\\c"), std::string("nul\0l", 5), std::string("\xFF\xC3"),
                                  std::string("\n\t\x7F\u0085"), std::string("\u202Eevil\u2028"),
                                  std::string("日本 \U0001F3BB e\u0301")}) {
    const std::string line = to_json(model.classify(text), {.index = 0, .text = text});
    for (char c : line) EXPECT_FALSE(uint8_t(c) < 0x20 || c == 0x7F);
    EXPECT_EQ(line.find("\u202E"), std::string::npos);
    const std::string back = json::parse(line)["text"];
    if (text[0] != '\xFF') {
      EXPECT_EQ(back, text);
    } else {
      EXPECT_EQ(back, "\uFFFD\uFFFD");
    }
  }
}

TEST(Json, WhatIsNotFiniteIsNull) {
  EXPECT_EQ(scores_to_json(std::vector<float>{std::nanf(""), HUGE_VALF, -HUGE_VALF, 1}, {}),
            R"({"scores":[null,null,null,1]})");
}

TEST(Json, OfALargeResultComesInPieces) {
  const TextModel model = golden("sentence-similarity-bert");
  std::string text;
  for (int i = 0; i < 30; ++i) text += "harbour ";
  const Attention attention = model.attend(text);
  std::string together;
  size_t pieces = 0;
  write_json(attention, {.index = 0}, [&](std::string_view piece) { together += piece, ++pieces; });
  EXPECT_EQ(together, to_json(attention, {.index = 0}));
  EXPECT_GT(pieces, 1u);
}

TEST(Json, OfAModelSaysWhatItIs) {
  const ModelInfo info = describe(test::golden_task("text-classification-bert"));
  const json parsed = json::parse(to_json(info));
  EXPECT_EQ(parsed["family"], "bert");
  EXPECT_EQ(parsed["heads_on_top"], json::array({"sequence classification"}));
  EXPECT_EQ(parsed["labels"], info.config->labels);
  EXPECT_EQ(parsed["parameters"], info.parameters);
  EXPECT_EQ(parsed["tokenizer"]["tokens"], info.tokenizer->tokens);
  EXPECT_TRUE(parsed["files"].contains("model.safetensors"));
  const json marian =
      json::parse(to_json(describe(test::source_dir() / "tests/golden/families/marian-seq2seq-0")));
  EXPECT_EQ(marian["kind"], "encoder-decoder");
}

TEST(Describe, RefusesAVocabularyThatIsTooLargeForTheModel) {
  test::MadeUpModel model;
  EXPECT_NO_THROW(describe(model.path()));
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < 76; ++i) vocabulary += fmt::format("w{}\n", i);
  model.write("vocab.txt", vocabulary);
  EXPECT_THROW(describe(model.path()), Error);
}

}  // namespace
}  // namespace bertie
