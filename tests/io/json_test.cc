#include "io/json.h"

#include <vector>

#include "support/expect_error.h"

namespace bertie::io {
namespace {

using nlohmann::json;
using test::expect_error;

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, ReadsWhatNlohmannReads) {
  for (const char* text :
       {"null", "true", "-1", "18446744073709551615", "1e-12", "\"\\u00e9\\ud83d\\ude00 é\"", "[]", "{}",
        R"({"a": [1, -2, 3.5, {"b": null}, []], "c": {"d": {"e": "f"}}, "g": false})", " \n[ 1 , 2 ] "})
    EXPECT_EQ(parse_json(text, "t"), json::parse(text)) << text;
}

TEST(Json, ErrorsNameTheFileAndTheByte) {
  expect_error("config.json: not valid JSON at byte 7", [] { parse_json("{\"a\": x}", "config.json"); });
  expect_error("not valid JSON at byte 1: ", [] { parse_json("", "t"); });
  expect_error("not valid JSON", [] { parse_json("{\"a\": 1", "t"); });
  expect_error("not valid JSON", [] { parse_json("{} {}", "t"); });
  expect_error("not valid JSON", [] { parse_json("{\"a\": 1,}", "t"); });
}

TEST(Json, RefusesWhatIsNotStrictlyJson) {
  expect_error("not valid JSON", [] { parse_json("[NaN]", "t"); });
  expect_error("not valid JSON", [] { parse_json("[Infinity]", "t"); });
  expect_error("number overflow", [] { parse_json("[1e999]", "t"); });
  expect_error("not valid JSON", [] { parse_json("[1] // comment", "t"); });
  expect_error("UTF-8", [] { parse_json("\"\xff\"", "t"); });
  expect_error("not valid JSON", [] { parse_json("\"\\ud800\"", "t"); });
  expect_error("a NUL at byte 2", [] { parse_json(std::string_view("{}\0garbage", 10), "t"); });
}

TEST(Json, RefusesDuplicateKeysAtEveryLevel) {
  expect_error("t: duplicate key \"a\"", [] { parse_json(R"({"a": 1, "b": 2, "a": 1})", "t"); });
  expect_error("duplicate key \"x\"", [] { parse_json(R"([{"k": {"x": 1, "\u0078": 2}}])", "t"); });
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 2, "b": {"a": 3}}])", "t"));
}

TEST(Json, KeepsToItsLimits) {
  EXPECT_NO_THROW(parse_json(nested(64), "t"));
  expect_error("t: JSON nested deeper than 64", [] { parse_json(nested(65), "t"); });
  expect_error("nested deeper", [] { parse_json(std::string(1'000'000, '['), "t"); });
  EXPECT_NO_THROW(parse_json("[1]", "t", {.bytes = 3}));
  expect_error("3 bytes of JSON, more than the limit of 2", [] { parse_json("[1]", "t", {.bytes = 2}); });
}

TEST(Json, ErrorsStayShortWhateverTheFileHolds) {
  for (const std::string& text :
       {"{\"" + std::string(100'000, 'k') + "\": x}", std::string(100'000, '9') + "e9",
        "[\"" + std::string(100'000, 'a') + "\x01\"]"})
    try {
      parse_json(text, "t");
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 300u);
    }
}

TEST(Json, GettersGiveTheValueOrTheDefault) {
  json object = parse_json(R"({"n": 12, "x": 1e-5, "i": -3, "yes": true, "s": "gelu", "none": null})", "t");
  EXPECT_EQ(get_size(object, "n", "t"), 12u);
  EXPECT_EQ(get_size(object, "other", "t", 7), 7u);
  EXPECT_EQ(get_size(object, "none", "t", 7), 7u);
  EXPECT_EQ(get_number(object, "x", "t"), 1e-5);
  EXPECT_EQ(get_number(object, "i", "t"), -3.0);
  EXPECT_EQ(get_number(object, "none", "t", 0.5), 0.5);
  EXPECT_TRUE(get_bool(object, "yes", "t"));
  EXPECT_FALSE(get_bool(object, "no", "t", false));
  EXPECT_EQ(get_string(object, "s", "t"), "gelu");
  EXPECT_EQ(get_string(object, "none", "t", "relu"), "relu");
}

TEST(Json, GettersNameKeyAndFile) {
  json object =
      parse_json(R"({"n": -1, "x": 1.5, "big": 1000000001, "s": "3", "none": null, "a": [1]})", "t");
  expect_error("config.json: the key \"hidden_size\" is missing",
               [&] { get_size(object, "hidden_size", "config.json"); });
  expect_error("the key \"none\" is missing", [&] { get_string(object, "none", "t"); });
  expect_error("t: \"n\" is -1, not a whole number", [&] { get_size(object, "n", "t"); });
  expect_error("\"x\" is 1.5, not a whole number", [&] { get_size(object, "x", "t"); });
  expect_error("from 0 to 1000000000", [&] { get_size(object, "big", "t"); });
  expect_error("from 0 to 4", [&] { get_size(parse_json(R"({"n": 5})", "t"), "n", "t", {}, 4); });
  expect_error("not a number", [&] { get_number(object, "s", "t"); });
  expect_error("not true or false", [&] { get_bool(object, "x", "t", true); });
  expect_error("\"a\" is an array, not a string", [&] { get_string(object, "a", "t", "x"); });
  expect_error("t: there should be an object", [&] { get_size(json::array(), "n", "t"); });
}

// Counts string values and skips everything else.
struct StringCounter : JsonHandler {
  void null() {}
  void boolean(bool) {}
  void integer(int64_t) {}
  void whole(uint64_t) {}
  void real(double) {}
  void string(std::string& text) { strings.push_back(std::move(text)); }
  void key(std::string&) {}
  void begin_object() {}
  void end_object() {}
  void begin_array() {}
  void end_array() {}
  std::vector<std::string> strings;
};

TEST(Json, AHandlerSeesEachItemWithoutATree) {
  StringCounter counter;
  read_json(R"({"a": "x", "b": [1, -2, 3.5, true, null, "y", {"c": "z"}]})", "t", counter);
  EXPECT_EQ(counter.strings, (std::vector<std::string>{"x", "y", "z"}));
  expect_error("nested deeper than 64", [&] { read_json(nested(65), "t", counter); });
  expect_error("t: not valid JSON at byte 2", [&] { read_json("[", "t", counter); });
}

struct OnlyNumbers : JsonHandler {
  void begin_array() {}
  void end_array() {}
  void whole(uint64_t) {}
};

TEST(Json, WhatAHandlerDoesNotTakeIsRefused) {
  OnlyNumbers numbers;
  numbers.name = "t", numbers.expected = "whole numbers";
  EXPECT_NO_THROW(read_json("[1, 2, [3]]", "t", numbers));
  expect_error("t: a string where there should be whole numbers",
               [&] { read_json("[\"1\"]", "t", numbers); });
  expect_error("a negative number where", [&] { read_json("[-1]", "t", numbers); });
  expect_error("a fraction where", [&] { read_json("[1.5]", "t", numbers); });
  expect_error("an object where", [&] { read_json("[{}]", "t", numbers); });
  expect_error("null where", [&] { read_json("[null]", "t", numbers); });
}

TEST(Quote, EscapesControlCharactersAndCutsBetweenCharacters) {
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote("a\x1b[31m\n"), "\"a\\u001b[31m\\u000a\"");
  std::string long_text = std::string(79, 'a') + "é" + "tail";
  EXPECT_EQ(quote(long_text), "\"" + std::string(79, 'a') + "…\"");
}

}  // namespace
}  // namespace bertie::io
