#pragma once
// A part of a tokenizer.json and its address, so that every complaint about it names file and key.
#include <initializer_list>
#include <string>
#include <vector>

#include "io/json.h"

namespace bertie::text {

// A value as an error shows it.
std::string show(const nlohmann::json& value);

class Section {
 public:
  // `where`: "file" or "file: key". The value must outlive the section, and be an object or null.
  Section(const nlohmann::json& value, std::string where);

  bool missing() const { return value_->is_null(); }
  bool has(const char* key) const { return !missing() && value_->contains(key); }
  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  std::string where(const char* key) const;

  std::string type() const;  // "" if missing
  bool flag(const char* key, std::optional<bool> otherwise) const;
  size_t size(const char* key, std::optional<size_t> otherwise, size_t max) const;
  std::string string(const char* key, std::optional<std::string> otherwise) const;
  Section section(const char* key) const;  // missing if there is none
  std::vector<Section> sections(
      const char* key) const;                         // an array of at most 64 objects; an Error if it is not
  const nlohmann::json* find(const char* key) const;  // nullptr if missing or null

  // This section's `key` is something we do not know.
  [[noreturn]] void unsupported(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

// A Sequence of steps flattened, in order: the section itself if it is not one, nothing if it is missing.
// `key` is what a Sequence calls its list.
std::vector<Section> flattened(const Section& section, const char* key);

}  // namespace bertie::text
