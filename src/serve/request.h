#pragma once
// What a client sent: JSON whose every value is checked before it is used. Whatever is wrong becomes a
// RequestError that names the field.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::serve {

// A request that is not done, and why: in words for the client, with nothing of the server's in them.
class RequestError : public std::runtime_error {
 public:
  RequestError(int code, const std::string& message, std::string field_name = {}, std::string methods = {})
      : std::runtime_error(message), status(code), field(std::move(field_name)), allow(std::move(methods)) {}
  int status;
  std::string field;
  std::string allow;  // methods that the path takes, where another one was asked
};

// How much one request may ask for.
struct RequestLimits {
  size_t json_depth = 16;
  size_t json_values = 400'000;
  size_t inputs = 2048;     // texts of a request
  size_t tokens = 131'072;  // of all its texts
  size_t piece = 32'768;    // tokens of what cannot be cut: one long text, or one answer to it
  size_t bytes =
      16 << 20;  // that a reply or what is made of a request may come to, where it grows with a product
  size_t top_k = 1000;  // answers of any kind
};

// The body of a request: an object. 400 where it is not JSON, 422 where it is none.
nlohmann::json parse_body(std::string_view body, const RequestLimits& limits);

// An object's members by name. One that is null counts as missing.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object, std::string path = {})
      : object_(&object), path_(std::move(path)) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const nlohmann::json& at(std::string_view name) const;  // 422 where there is none
  const nlohmann::json* find(std::string_view name) const;

  std::string string(std::string_view name, std::optional<std::string> otherwise = {}) const;
  bool boolean(std::string_view name, bool otherwise) const;
  size_t whole(std::string_view name, size_t otherwise, size_t least, size_t most) const;
  std::vector<size_t> wholes(std::string_view name, size_t least, size_t most) const;  // a list of them
  double number(std::string_view name, double otherwise, double least, double most) const;
  // One of these words.
  std::string choice(std::string_view name, const std::string& otherwise,
                     std::initializer_list<std::string_view> words) const;
  std::vector<std::string> strings(std::string_view name, size_t most) const;  // a list, or a single one
  Fields object(std::string_view name) const;                                  // missing: an empty one
  std::string path(std::string_view name) const;                               // "parameters.top_k"
  // 422 where there is a member of another name: for requests that nobody but us has defined.
  void only(std::initializer_list<std::string_view> names) const;

 private:
  const nlohmann::json* object_;
  std::string path_;
};

// 413: there are more of them than a request may have.
void check_count(const std::string& field, size_t count, size_t most);
std::string string_of(const nlohmann::json& value, const std::string& field);
int32_t token_of(const nlohmann::json& value, const std::string& field);
// A string, or a list of them.
std::vector<std::string> strings_of(const nlohmann::json& value, const std::string& field, size_t most);

}  // namespace bertie::serve
