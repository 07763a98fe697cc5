// The document that the service gives of itself is true: its routes are the server's, its examples are
// answered, and the answers are what it says.
#include <gtest/gtest.h>

#include "serve/client.h"
#include "serve/service.h"
#include "serve/small_models.h"

namespace bertie {
namespace {

using nlohmann::json;

// The parts of JSON Schema that the document uses. Gives what is wrong, or nothing.
class Schema {
 public:
  explicit Schema(const json& document) : document_(document) {}

  const json& resolve(const json& node) const {
    const json* at = &node;
    while (at->contains("$ref"))
      at = &document_.at(json::json_pointer(at->at("$ref").get<std::string>().substr(1)));
    return *at;
  }
  std::string wrong(const json& value, const json& given, const std::string& place = "") const {
    const json& schema = resolve(given);
    if (schema.contains("const") && schema["const"] != value)
      return place + ": not " + schema["const"].dump();
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      return place + ": none of " + schema["enum"].dump();
    if (schema.contains("type") && !is(value, schema["type"]))
      return place + ": not of type " + schema["type"].dump();
    if (schema.contains("minimum") && value < schema["minimum"]) return place + ": too small";
    for (const json& part : schema.value("allOf", json::array()))
      if (const std::string w = wrong(value, part, place); !w.empty()) return w;
    for (const char* some : {"anyOf", "oneOf"}) {
      if (!schema.contains(some)) continue;
      size_t fit = 0;
      std::string why;
      for (const json& part : schema[some]) {
        const std::string w = wrong(value, part, place);
        fit += w.empty(), why += w + "; ";
      }
      if (fit == 0 || (fit > 1 && some == std::string("oneOf")))
        return place + ": " + some + " fits " + std::to_string(fit) + ": " + why;
    }
    if (value.is_array()) return wrong_items(value, schema, place);
    if (value.is_object()) return wrong_members(value, schema, place);
    return {};
  }

 private:
  static bool is(const json& value, const json& type) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(), [&](const json& one) { return is(value, one); });
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) || (type == "number" && value.is_number()) ||
           (type == "null" && value.is_null());
  }
  std::string wrong_items(const json& value, const json& schema, const std::string& place) const {
    if (value.size() < schema.value("minItems", size_t{0})) return place + ": too few items";
    if (value.size() > schema.value("maxItems", SIZE_MAX)) return place + ": too many items";
    if (schema.contains("items"))
      for (size_t i = 0; i < value.size(); ++i)
        if (const std::string w = wrong(value[i], schema["items"], place + "/" + std::to_string(i));
            !w.empty())
          return w;
    return {};
  }
  std::string wrong_members(const json& value, const json& schema, const std::string& place) const {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>())) return place + ": no " + name.get<std::string>();
    const json known = schema.value("properties", json::object());
    for (const auto& [name, member] : value.items()) {
      if (known.contains(name)) {
        if (const std::string w = wrong(member, known[name], place + "/" + name); !w.empty()) return w;
      } else if (schema.value("additionalProperties", json(true)) == json(false)) {
        return place + ": " + name + " is not in the schema";
      }
    }
    return {};
  }
  const json& document_;
};

// "/models/{name}/pipeline/{task}" with a name and a task in it.
std::string filled(std::string path, const std::string& task) {
  const auto replace = [&](const std::string& what, const std::string& with) {
    if (const size_t at = path.find(what); at != path.npos) path.replace(at, what.size(), with);
  };
  replace("{task}", task);
  replace("{file}", "app.js");
  std::string model = "sentence-similarity-bert";
  for (const auto& [kind, name] : {std::pair("fill-mask", "fill-mask-bert"),
                                   {"question-answering", "question-answering-bert"},
                                   {"text-classification", "text-classification-bert"},
                                   {"text-generation", "text-generation-gpt2"},
                                   {"token-classification", "token-classification-bert"},
                                   {"zero-shot-classification", "nli"}})
    if (task == kind) model = name;
  replace("{name}", model);
  replace("{run}", "run");
  replace("{model}", "fill-mask-bert");
  return path;
}

class OpenApi : public testing::Test {
 protected:
  Server server{test::small_models()};
  const json document = test::get(server.port(), "/openapi.json").json();
  const Schema schema{document};
};

TEST_F(OpenApi, HasTheRoutesOfTheServerAndNoOthers) {
  std::set<std::string> described, there;
  for (const auto& [path, item] : document["paths"].items())
    for (const auto& [method, operation] : schema.resolve(item).items()) {
      std::string route = path.substr(0, path.find('{'));
      described.insert((method == "post" ? "POST " : "GET ") + route);
    }
  for (auto routes : {serve::openai_routes(), serve::tei_routes(), serve::pipeline_routes(),
                      serve::inside_routes(), serve::heads_routes(), serve::see_routes(),
                      serve::training_routes(), serve::page_routes(), serve::status_routes()})
    for (const serve::Route& route : routes)
      there.insert(std::string(route.method) + " " + std::string(route.path));
  EXPECT_EQ(described, there);
}

TEST_F(OpenApi, ExamplesAreAnsweredAsItSays) {
  size_t asked = 0;
  for (const auto& [path, item] : document["paths"].items())
    for (const auto& [method, operation] : schema.resolve(item).items()) {
      const json& ok = schema.resolve(operation["responses"]["200"])["content"];
      if (method == "get") {
        const test::Reply reply = test::get(server.port(), filled(path, ""));
        EXPECT_EQ(reply.status, 200) << path << reply.body;
        const std::string type =
            reply.header("content-type").substr(0, reply.header("content-type").find(';'));
        ASSERT_TRUE(ok.contains(type)) << path << " " << type;
        if (type == "application/json") {
          EXPECT_EQ(schema.wrong(reply.json(), ok[type]["schema"]), "") << path;
        }
        ++asked;
        continue;
      }
      const json& body = operation["requestBody"]["content"]["application/json"];
      for (const auto& [name, example] : body["examples"].items()) {
        const json& value = example["value"];
        EXPECT_EQ(schema.wrong(value, body["schema"]), "") << path << ", " << name;
        const test::Reply reply = test::post(server.port(), filled(path, name), value.dump());
        ASSERT_EQ(reply.status, 200) << path << ", " << name << ": " << reply.body;
        EXPECT_EQ(schema.wrong(reply.json(), ok["application/json"]["schema"]), "")
            << path << ", " << name << reply.body.substr(0, 500);
        ++asked;
      }
    }
  EXPECT_GT(asked, 40u);
}

TEST_F(OpenApi, RefusalsAreWhatItSays) {
  for (const auto& [path, item] : document["paths"].items())
    for (const auto& [method, operation] : schema.resolve(item).items()) {
      if (method == "get") continue;
      for (const char* body : {"", "[]", "{",
                               "{\"inputs\": 7, \"input\": {}, \"text\": 1, \"word\": 2, \"pairs\": 3, "
                               "\"texts\": 4, \"layer\": -1}"}) {
        const test::Reply reply = test::post(server.port(), filled(path, "fill-mask"), body);
        const std::string status = std::to_string(reply.status);
        ASSERT_TRUE(reply.status >= 400 && reply.status < 500) << path << " " << status << reply.body;
        ASSERT_TRUE(operation["responses"].contains(status)) << path << " " << status;
        const json& content = schema.resolve(operation["responses"][status])["content"]["application/json"];
        EXPECT_EQ(schema.wrong(reply.json(), content["schema"]), "") << path << reply.body;
      }
    }
}

TEST(SchemaOfTheTest, SeesWhatIsWrong) {
  const json document =
      json::parse(R"({"a": {"type": "array", "items": {"type": "integer", "minimum": 1}}})");
  const Schema schema(document);
  const json ref = {{"$ref", "#/a"}};
  EXPECT_EQ(schema.wrong({1, 2}, ref), "");
  EXPECT_NE(schema.wrong({1, 0}, ref), "");
  EXPECT_NE(schema.wrong({1, "2"}, ref), "");
  EXPECT_NE(schema.wrong(json::object(), ref), "");
  const json object = json::parse(
      R"({"type": "object", "required": ["x"], "properties": {"x": {}}, "additionalProperties": false})");
  EXPECT_EQ(schema.wrong({{"x", 1}}, object), "");
  EXPECT_NE(schema.wrong({{"x", 1}, {"y", 1}}, object), "");
  EXPECT_NE(schema.wrong(json::object(), object), "");
}

}  // namespace
}  // namespace bertie
