#include "text/json_object.h"

#include "io/json.h"

namespace bertie::text {

using nlohmann::json;

std::string describe(const json& value) {
  if (value.is_string()) return io::quote(value.get_ref<const std::string&>());
  if (value.is_primitive()) return value.dump();
  return std::string("an ") + value.type_name();
}

JsonObject::JsonObject(const json& value, std::string where) : value_(&value), where_(std::move(where)) {
  if (!value.is_null() && !value.is_object())
    throw Error(where_ + ": expected an object, found " + describe(value));
}

bool JsonObject::missing() const { return value_->is_null(); }
bool JsonObject::has(const char* key) const { return !missing() && value_->contains(key); }

std::string JsonObject::where(const char* key) const {
  return where_ + (where_.find(": ") == std::string::npos ? ": " : ".") + key;
}

std::string JsonObject::type() const { return missing() ? "" : string("type", ""); }
bool JsonObject::flag(const char* key, std::optional<bool> otherwise) const {
  return missing() ? otherwise.value() : io::get_bool(*value_, key, where_, otherwise);
}
size_t JsonObject::size(const char* key, std::optional<size_t> otherwise, size_t max) const {
  return missing() ? otherwise.value() : io::get_size(*value_, key, where_, otherwise, max);
}
std::string JsonObject::string(const char* key, std::optional<std::string> otherwise) const {
  return missing() ? otherwise.value() : io::get_string(*value_, key, where_, otherwise);
}

const json* JsonObject::find(const char* key) const {
  if (missing()) return nullptr;
  auto it = value_->find(key);
  return it == value_->end() || it->is_null() ? nullptr : &*it;
}

JsonObject JsonObject::object(const char* key) const {
  static const json kNull;
  const json* value = find(key);
  return {value ? *value : kNull, where(key)};
}

std::vector<JsonObject> JsonObject::objects(const char* key) const {
  const json* list = find(key);
  if (!list || !list->is_array() || list->size() > 64) throw Error(where(key) + ": expected a short array");
  std::vector<JsonObject> out;
  for (size_t i = 0; i < list->size(); ++i)
    out.emplace_back((*list)[i], where(key) + "[" + std::to_string(i) + "]");
  return out;
}

void JsonObject::unsupported(const char* key, const std::string& expected) const {
  const json* found = find(key);
  throw Error(where(key) + ": expected " + expected + ", found " + (found ? describe(*found) : "nothing"),
              "docs/tokenizing.md lists what a tokenizer.json may hold.");
}

std::vector<JsonObject> flatten_sequence(const JsonObject& object, const char* key) {
  if (object.missing()) return {};
  if (object.type() != "Sequence") return {object};
  std::vector<JsonObject> out;
  for (const JsonObject& item : object.objects(key))
    for (const JsonObject& step : flatten_sequence(item, key)) {
      if (out.size() == 64) throw Error(object.where() + ": more than 64 steps");
      out.push_back(step);
    }
  return out;
}

}  // namespace bertie::text
