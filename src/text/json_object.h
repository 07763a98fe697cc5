#pragma once
// An object in a JSON file together with its path, so that every error names file and key.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bertie::text {

// A value as an error shows it.
std::string describe(const nlohmann::json& value);

class JsonObject {
 public:
  // `where`: "file" or "file: key". The value must outlive this, and be an object or null (missing).
  JsonObject(const nlohmann::json& value, std::string where);

  bool missing() const;
  bool has(const char* key) const;
  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  std::string where(const char* key) const;

  // Without a default a missing key is an Error; so is a value of another type.
  std::string type() const;  // the string "type"; "" if this is missing
  bool flag(const char* key, std::optional<bool> otherwise) const;
  size_t size(const char* key, std::optional<size_t> otherwise, size_t max) const;
  std::string string(const char* key, std::optional<std::string> otherwise) const;
  JsonObject object(const char* key) const;                // may be missing
  std::vector<JsonObject> objects(const char* key) const;  // an array of at most 64
  const nlohmann::json* find(const char* key) const;       // nullptr if missing or null

  // Throws: the value of `key` is not supported.
  [[noreturn]] void unsupported(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

// The steps of a "Sequence" under `key`, in order, and of the sequences in it; the object itself if it is
// another step; nothing if it is missing.
std::vector<JsonObject> flatten_sequence(const JsonObject& object, const char* key);

}  // namespace bertie::text
