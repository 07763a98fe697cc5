// What comes back over HTTP is what the library gives, to the bit, whatever else is asked at the same time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "bertie/explain.h"
#include "bertie/json.h"
#include "bertie/similarity.h"
#include "bertie/text_model.h"
#include "serve/client.h"
#include "serve/small_models.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::golden_task;
using test::Reply;

std::vector<float> floats(const json& list) { return list.get<std::vector<float>>(); }

std::string from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits = bits << 6 | uint32_t(digits.find(c)), count += 6;
    if (count >= 8) count -= 8, out += char(bits >> count & 0xFF);
  }
  return out;
}

class Routes : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new Server(test::small_models()); }
  static void TearDownTestSuite() { delete server_; }

  json ask(std::string_view path, const json& body, int status = 200) {
    const Reply reply = test::post(server_->port(), path, body.dump());
    EXPECT_EQ(reply.status, status) << path << " " << body.dump() << "\n" << reply.body;
    last = reply;
    return reply.json();
  }
  TextModel model(const std::string& name) const { return load(golden_task(name)); }

  Reply last;
  static Server* server_;
};
Server* Routes::server_ = nullptr;

TEST_F(Routes, OpenAiVectorsAreTheLibrarysAndOfLength1) {
  const TextModel alone = model("sentence-similarity-bert");
  const std::vector<std::string> texts{"hello world", "The river runs.", "Größe 你好 🙂", ""};
  const json reply = ask("/v1/embeddings", {{"input", texts}});
  const auto vectors = alone.embed(texts, {.normalize = true});
  size_t tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(floats(reply["data"][i]["embedding"]), vectors[i].values) << i;
    double squares = 0;
    for (float x : vectors[i].values) squares += double(x) * x;
    EXPECT_NEAR(squares, 1, 1e-5);
    tokens += vectors[i].tokens;
  }
  EXPECT_EQ(reply["usage"]["prompt_tokens"], tokens);
  EXPECT_EQ(last.header("x-compute-tokens"), std::to_string(tokens));
  EXPECT_EQ(ask("/embeddings", {{"input", texts}}), reply);

  const json packed = ask("/v1/embeddings", {{"input", texts[0]}, {"encoding_format", "base64"}});
  const std::string bytes = from_base64(packed["data"][0]["embedding"].get<std::string>());
  ASSERT_EQ(bytes.size(), 4 * vectors[0].values.size());
  EXPECT_EQ(std::memcmp(bytes.data(), vectors[0].values.data(), bytes.size()), 0);
}

TEST_F(Routes, OpenAiTakesIdsAndRefusesThoseOfOthers) {
  const TextModel alone = model("sentence-similarity-bert");
  const Encoding e = alone.tokenizer().encode("hello world");
  const std::vector<int32_t> inner(e.ids.begin() + 1, e.ids.end() - 1);
  const json as_text = ask("/v1/embeddings", {{"input", "hello world"}})["data"];
  EXPECT_EQ(ask("/v1/embeddings", {{"input", inner}})["data"], as_text);
  EXPECT_EQ(ask("/v1/embeddings", {{"input", json::array({e.ids})}})["data"], as_text);
  const json error = ask("/v1/embeddings", {{"input", {100257, 5}}}, 422)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("check_embedding_ctx_length"), std::string::npos);
  EXPECT_EQ(error["param"], "input");
  EXPECT_EQ(ask("/v1/embeddings", {{"input", "a"}, {"model", "gpt-9"}}, 404)["error"]["code"],
            "model_not_found");
  ask("/v1/embeddings", {{"input", json::array()}}, 400);
  ask("/v1/embeddings", {{"input", {1, -1}}}, 422);
  ask("/v1/embeddings", {{"input", {1, 1.5}}}, 422);
  ask("/v1/embeddings", {{"input", {1, 1e300}}}, 422);
}

TEST_F(Routes, ShorterVectorsAreTheFirstNumbersToLength1Again) {
  const std::vector<float> whole = floats(ask("/embed", {{"inputs", "hello"}})[0]);
  const std::vector<float> part = floats(ask("/embed", {{"inputs", "hello"}, {"dimensions", 4}})[0]);
  ASSERT_EQ(part.size(), 4u);
  double squares = 0;
  for (size_t i = 0; i < 4; ++i) squares += double(whole[i]) * whole[i];
  for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(part[i], float(whole[i] / std::sqrt(squares)));
  EXPECT_EQ(ask("/embed", {{"inputs", "hello"}, {"dimensions", 4000}}, 422)["field"], "dimensions");
}

TEST_F(Routes, TeiCutsWhereItMayAndRefusesElse) {
  const TextModel alone = model("sentence-similarity-bert");
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 2 ? "river " : "bank ";
  const json error = ask("/embed", {{"inputs", text}}, 413);
  EXPECT_EQ(error["error_type"], "Validation");
  EXPECT_EQ(error["field"], "inputs");
  EXPECT_EQ(floats(ask("/embed", {{"inputs", text}, {"truncate", true}})[0]),
            alone.embed(Texts(std::span(&text, 1)), {.normalize = true})[0].values);
  const json left =
      ask("/embed", {{"inputs", "zebra " + text}, {"truncate", true}, {"truncation_direction", "left"}});
  EXPECT_EQ(left, ask("/embed",
                      {{"inputs", "horse " + text}, {"truncate", true}, {"truncation_direction", "left"}}))
      << "what was left out does not matter";
  EXPECT_NE(ask("/embed", {{"inputs", "zebra " + text}, {"truncate", true}}),
            ask("/embed", {{"inputs", "horse " + text}, {"truncate", true}}));
}

TEST_F(Routes, TokenVectorsComeWhole) {
  const TextModel alone = model("sentence-similarity-bert");
  const std::vector<std::string> texts{"hello world", "river"};
  const json reply = ask("/embed_all", {{"inputs", texts}});
  const auto expected = alone.token_vectors(texts);
  ASSERT_EQ(reply.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> all;
    for (const json& row : reply[i])
      for (float x : floats(row)) all.push_back(x);
    EXPECT_EQ(reply[i].size(), expected[i].tokens);
    EXPECT_EQ(all, expected[i].values);
  }
}

TEST_F(Routes, PredictGivesLabelsOfTextsAndPairs) {
  const TextModel alone = model("text-classification-bert");
  const auto expect = [](const json& labels, const Classification& c) {
    ASSERT_EQ(labels.size(), c.labels.size());
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(labels[i]["label"], c.labels[i].label);
      EXPECT_EQ(labels[i]["score"].get<float>(), c.labels[i].score);
    }
  };
  expect(ask("/predict", {{"inputs", "A fine film."}}), alone.classify("A fine film."));
  expect(ask("/predict", {{"inputs", {"It rains.", "It is wet."}}}),
         alone.classify("It rains.", "It is wet."));
  const json both =
      ask("/predict", {{"inputs", {{"It rains.", "It is wet."}, {"A fine film."}}}, {"raw_scores", true}});
  expect(both[0], alone.classify("It rains.", "It is wet.", {.apply = Apply::kNothing}));
  expect(both[1], alone.classify("A fine film.", {.apply = Apply::kNothing}));
}

TEST_F(Routes, RerankByVectorsWhereNoModelReadsPairs) {
  const TextModel alone = model("sentence-similarity-bert");
  const std::vector<std::string> texts{"money", "the bank of a stream", "cats"};
  const json reply = ask("/rerank", {{"query", "river"}, {"texts", texts}, {"return_text", true}});
  const auto expected = rank(alone.embed("river"), alone.embed(texts));
  ASSERT_EQ(reply.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reply[i]["index"], expected[i].index);
    EXPECT_FLOAT_EQ(reply[i]["score"].get<float>(), expected[i].score);
    EXPECT_EQ(reply[i]["text"], texts[expected[i].index]);
  }
  const json cohere = ask("/v2/rerank", {{"query", "river"}, {"documents", texts}, {"top_n", 2}});
  ASSERT_EQ(cohere["results"].size(), 2u);
  EXPECT_EQ(cohere["results"][0]["relevance_score"], reply[0]["score"]);
}

TEST(Rerank, ByTheModelThatReadsPairs) {
  const Server server(test::one_model("text-classification-albert"));
  const TextModel alone = load(golden_task("text-classification-albert"));
  const json reply = test::post(server.port(), "/rerank",
                                R"({"query": "river", "texts": ["money", "stream"], "raw_scores": true})")
                         .json();
  for (const json& one : reply)
    EXPECT_EQ(one["score"].get<float>(),
              alone.classify("river", one["index"] == 0 ? "money" : "stream", {.apply = Apply::kNothing})
                  .labels[0]
                  .score);
  EXPECT_GE(reply[0]["score"].get<float>(), reply[1]["score"].get<float>());
}

TEST_F(Routes, TokenizeAndDecodeAreTheTokenizers) {
  const TextModel alone = model("sentence-similarity-bert");
  const json tokens = ask("/tokenize", {{"inputs", "Größe 🙂 river"}})[0];
  const Encoding e = alone.tokenizer().encode("Größe 🙂 river");
  ASSERT_EQ(tokens.size(), e.size());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < e.size(); ++i) {
    EXPECT_EQ(tokens[i]["id"], e.ids[i]);
    EXPECT_EQ(tokens[i]["special"], e.special(i));
    if (e.special(i)) {
      EXPECT_TRUE(tokens[i]["start"].is_null());
    } else {
      EXPECT_EQ(tokens[i]["stop"], e.offsets[i].end);
    }
    ids.push_back(e.ids[i]);
  }
  EXPECT_EQ(ask("/decode", {{"ids", ids}})[0], alone.tokenizer().decode(ids));
  EXPECT_EQ(ask("/decode", {{"ids", {999999999}}})[0], "");
  ask("/decode", {{"ids", {-1}}}, 422);
}

TEST_F(Routes, PipelinesAreTheLibrarys) {
  const std::string text = "Paris is the [MASK] of France.";
  const json filled = ask("/pipeline/fill-mask", {{"inputs", text}, {"parameters", {{"top_k", 3}}}});
  const auto fills = model("fill-mask-bert").fill_mask(text, {.top = 3}).masks[0];
  ASSERT_EQ(filled.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(filled[i]["token"], fills[i].id);
    EXPECT_EQ(filled[i]["score"].get<float>(), fills[i].score);
    EXPECT_EQ(filled[i]["sequence"], fills[i].sequence);
  }
  ask("/pipeline/fill-mask", {{"inputs", "no mask"}}, 422);

  const json classified =
      ask("/models/text-classification-bert/pipeline/text-classification", {{"inputs", "A fine film."}});
  EXPECT_EQ(classified[0][0]["label"],
            model("text-classification-bert").classify("A fine film.").labels[0].label);

  const std::string names = "Ada Lovelace went to London.";
  const json tagged = ask("/pipeline/token-classification",
                          {{"inputs", names}, {"parameters", {{"aggregation_strategy", "none"}}}});
  const auto entities =
      model("token-classification-bert").tag(names, {.aggregation = Aggregation::kNone}).entities;
  ASSERT_EQ(tagged.size(), entities.size());
  for (size_t i = 0; i < entities.size(); ++i) {
    EXPECT_EQ(tagged[i]["entity"], entities[i].label);
    EXPECT_EQ(tagged[i]["score"].get<float>(), entities[i].score);
    EXPECT_EQ(tagged[i]["start"], entities[i].offset.begin);
  }

  const json answer =
      ask("/pipeline/question-answering", {{"inputs", {{"question", "Who?"}, {"context", "Ada wrote it."}}}});
  const Answer expected = model("question-answering-bert").answer("Who?", "Ada wrote it.").answers[0];
  EXPECT_EQ(answer["answer"], expected.text);
  EXPECT_EQ(answer["score"].get<float>(), expected.score);

  const json written =
      ask("/pipeline/text-generation", {{"inputs", "Once"}, {"parameters", {{"max_new_tokens", 5}}}});
  EXPECT_EQ(written[0]["generated_text"],
            model("text-generation-gpt2").generate("Once", {.max_new_tokens = 5}).text);

  const auto vectors = model("sentence-similarity-bert");
  EXPECT_EQ(floats(ask("/pipeline/feature-extraction", {{"inputs", "hello"}})),
            vectors.embed("hello").values);
  const json alike = ask(
      "/similarity", {{"inputs", {{"source_sentence", "a river"}, {"sentences", {"a stream", "money"}}}}});
  EXPECT_FLOAT_EQ(alike[1].get<float>(),
                  cosine(vectors.embed("a river").values, vectors.embed("money").values));
  ask("/pipeline/translate", {{"inputs", "a"}}, 404);
  ask("/models/no-such/pipeline/fill-mask", {{"inputs", "a [MASK]"}}, 404);
  ask("/models/fill-mask-bert/pipeline/token-classification", {{"inputs", "a"}}, 422);
}

TEST_F(Routes, ZeroShotIsAboutEntailment) {
  const TextModel nli = load(test::inference_model());
  const std::string text = "A fine film.";
  const std::vector<std::string> labels{"praise", "sport"};
  std::vector<double> entails, contradicts;
  for (const std::string& label : labels)
    for (const Scored& s :
         nli.classify(text, "It is about " + label + "!", {.apply = Apply::kNothing}).labels) {
      if (s.label == "entailment") entails.push_back(s.score);
      if (s.label == "contradiction") contradicts.push_back(s.score);
    }
  json parameters = {{"candidate_labels", labels}, {"hypothesis_template", "It is about {}!"}};
  const json one = ask("/pipeline/zero-shot-classification", {{"inputs", text}, {"parameters", parameters}});
  EXPECT_NEAR(one[0]["score"].get<double>() + one[1]["score"].get<double>(), 1, 1e-6);
  const double first = 1 / (1 + std::exp(entails[1] - entails[0]));
  EXPECT_NEAR(one[one[0]["label"] == "praise" ? 0 : 1]["score"].get<double>(), first, 1e-6);
  // huggingface_hub before 1.0 takes another shape.
  const Reply old = test::post(server_->port(), "/pipeline/zero-shot-classification",
                               json{{"inputs", text}, {"parameters", parameters}}.dump(),
                               "User-Agent: unknown/None; hf_hub/0.36.2; python/3.11\r\n");
  EXPECT_EQ(old.json()["labels"][0], one[0]["label"]);
  EXPECT_EQ(old.json()["scores"][1], one[1]["score"]);
  parameters["multi_label"] = true;
  const json many = ask("/pipeline/zero-shot-classification", {{"inputs", text}, {"parameters", parameters}});
  EXPECT_NEAR(many[many[0]["label"] == "praise" ? 0 : 1]["score"].get<double>(),
              1 / (1 + std::exp(contradicts[0] - entails[0])), 1e-6);
}

TEST_F(Routes, AttentionIsTheModels) {
  const TextModel alone = model("fill-mask-bert");
  const Attention expected = alone.attend("You found me");
  const json whole = ask("/attention", {{"text", "You found me"}, {"model", "fill-mask-bert"}});
  EXPECT_EQ(last.header("transfer-encoding"), "chunked");
  ASSERT_EQ(whole["weights"].size(), expected.layers);
  for (size_t layer = 0; layer < expected.layers; ++layer)
    for (size_t head = 0; head < expected.heads; ++head)
      for (size_t row = 0; row < expected.n(); ++row)
        EXPECT_EQ(
            floats(whole["weights"][layer][head][row]),
            std::vector<float>(expected.at(layer, head)[row].begin(), expected.at(layer, head)[row].end()));
  const json some = ask(
      "/attention", {{"text", "You found me"}, {"model", "fill-mask-bert"}, {"layers", {2}}, {"heads", {2}}});
  EXPECT_EQ(some["weights"][0][0], whole["weights"][1][1]);

  const auto array = [&](const char* precision) {
    return test::post(server_->port(), "/attention",
                      json{{"text", "You found me"},
                           {"model", "fill-mask-bert"},
                           {"format", "npy"},
                           {"precision", precision}}
                          .dump());
  };
  const Reply floats32 = array("float32");
  EXPECT_EQ(floats32.header("content-type"), "application/x-npy");
  const size_t bytes = 4 * expected.weights.size();
  ASSERT_GT(floats32.body.size(), bytes);
  EXPECT_EQ(floats32.body.substr(1, 5), "NUMPY");
  EXPECT_EQ(std::memcmp(floats32.body.data() + floats32.body.size() - bytes, expected.weights.data(), bytes),
            0);
  const Reply small = array("uint8");
  const auto* last_byte = reinterpret_cast<const uint8_t*>(small.body.data() + small.body.size() - 1);
  EXPECT_EQ(*last_byte, std::lround(255 * expected.weights.back()));
  EXPECT_EQ(array("float16").body.size() - small.body.size(), expected.weights.size());
  EXPECT_EQ(ask("/attention", {{"text", "a"}, {"layers", {0}}}, 422)["field"], "layers");
  EXPECT_EQ(ask("/attention", {{"text", "a"}, {"heads", {99}}}, 422)["field"], "heads");
  EXPECT_EQ(ask("/attention", {{"text", "a"}, {"haeds", {1}}}, 422)["field"], "haeds");
}

TEST_F(Routes, WhatOnlyBertieHasIsTheCommandLines) {
  const TextModel alone = model("fill-mask-bert");
  EXPECT_EQ(
      ask("/explain", {{"text", "You found me"}, {"model", "fill-mask-bert"}, {"layer", 2}, {"head", 1}}),
      json::parse(
          to_json(explain(alone, "You found me", {.layer = 1, .head = 0}), {.text = "You found me"})));
  EXPECT_EQ(ask("/explain", json::object())["tokens"], json({"You", "found", "me"}));
  EXPECT_EQ(ask("/score", {{"texts", {"You found me"}}})[0],
            json::parse(to_json(alone.score("You found me"), {.index = 0, .text = "You found me"})));
  const json next = ask("/next-sentence", {{"pairs", json::array({{"It rains.", "It is wet."}})}})[0];
  EXPECT_EQ(next["is_next"].get<float>(),
            model("next-sentence-bert").next_sentence("It rains.", "It is wet.").is_next);
  const json senses = ask("/senses", {{"word", "bank"},
                                      {"texts", {"a river bank", "the bank lends", "my bank"}},
                                      {"model", "fill-mask-bert"}});
  EXPECT_EQ(senses["places"].size(), 3u);
  ask("/senses", {{"word", "zebra"}, {"texts", {"a", "b"}}}, 422);
}

// Many clients at once, each with texts of its own: nothing is lost or swapped, and every bit is as alone.
TEST_F(Routes, AnswersDoNotDependOnWhoElseAsks) {
  const TextModel alone = model("sentence-similarity-bert");
  std::atomic<size_t> wrong = 0, asked = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 16; ++c)
    clients.emplace_back([&, c] {
      test::Client client(server_->port());
      for (int i = 0; i < 25; ++i) {
        std::vector<std::string> texts;
        for (int t = 0; t <= (c + i) % 4; ++t)
          texts.push_back(
              fmt::format("text {} of client {} says {}", i, c, std::string(size_t(7 * t + c), 'a')));
        client.send_request("POST", "/embed", json{{"inputs", texts}, {"truncate", true}}.dump());
        const Reply reply = client.receive();
        ++asked;
        const auto expected = alone.embed(texts, {.normalize = true});
        if (reply.status != 200 || reply.json().size() != texts.size()) {
          ++wrong;
          continue;
        }
        const json got = reply.json();
        for (size_t t = 0; t < texts.size(); ++t) wrong += floats(got[t]) != expected[t].values;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(asked, 400u);
  EXPECT_EQ(wrong, 0u);
}

// Requests that differ in their options alone never get each other's.
TEST_F(Routes, OptionsAreNotSharedWithThePass) {
  const std::string text = "the [MASK] bank";
  const json one = {{"inputs", text}, {"parameters", {{"targets", {"river\nbank"}}}}};
  const json two = {{"inputs", text}, {"parameters", {{"targets", {"river", "bank"}}}}};
  const json none = {{"inputs", text}};
  const std::vector<json> bodies{one, two, none};
  std::vector<std::string> alone;
  for (const json& body : bodies)
    alone.push_back(test::post(server_->port(), "/pipeline/fill-mask", body.dump()).body);
  EXPECT_NE(alone[0], alone[1]);
  std::atomic<size_t> wrong = 0;
  std::vector<std::thread> clients;
  for (size_t c = 0; c < 12; ++c)
    clients.emplace_back([&, c] {
      test::Client client(server_->port());
      for (size_t i = 0; i < 25; ++i) {
        const size_t which = (c + i) % bodies.size();
        client.send_request("POST", "/pipeline/fill-mask", bodies[which].dump());
        wrong += client.receive().body != alone[which];
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Routes, WhatCannotBeDoneIsNotSilentlyLeftOut) {
  EXPECT_EQ(
      ask("/predict", {{"inputs", "a"}, {"truncate", true}, {"truncation_direction", "left"}}, 422)["field"],
      "truncation_direction");
  EXPECT_EQ(ask("/pipeline/feature-extraction", {{"inputs", "a"}, {"prompt_name", "query"}}, 422)["field"],
            "prompt_name");
  EXPECT_EQ(
      ask("/pipeline/text-generation", {{"inputs", "a"}, {"parameters", {{"stop", {"b"}}}}}, 422)["field"],
      "parameters.stop");
  EXPECT_EQ(
      ask("/pipeline/question-answering", {{"inputs", {{"question", "who?"}, {"context", " "}}}})["answer"],
      "");
  const TextModel alone = model("sentence-similarity-bert");
  EXPECT_EQ(ask("/embed", {{"inputs", alone.tokenizer().encode("hello world").ids}}),
            ask("/embed", {{"inputs", "hello world"}}));
  const std::vector<std::string> many(2048, "a");
  EXPECT_EQ(ask("/rerank", {{"query", "b"}, {"texts", many}}).size(), 2048u);
}

TEST(Prompts, GoBeforeTexts) {
  const test::TempFolder folder;
  std::filesystem::copy(golden_task("sentence-similarity-bert"), folder.path(),
                        std::filesystem::copy_options::recursive);
  folder.write("config_sentence_transformers.json", R"({"prompts": {"query": "river "}})");
  ServeOptions options = test::no_models();
  options.models.push_back({"m", folder.path()});
  const Server server(options);
  const auto ask = [&](const char* body) { return test::post(server.port(), "/embed", body); };
  EXPECT_EQ(ask(R"({"inputs": "bank", "prompt_name": "query"})").body,
            ask(R"({"inputs": "river bank"})").body);
  EXPECT_EQ(ask(R"({"inputs": "bank", "prompt_name": "qeury"})").status, 422);
  EXPECT_EQ(ask(R"({"inputs": "bank", "prompt_name": null})").status, 200);
}

}  // namespace
}  // namespace bertie
