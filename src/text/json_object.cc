#include "text/json_object.h"

namespace bertie::text {

using nlohmann::json;

std::string show(const json& value) {
  if (value.is_string()) return io::quote(value.get_ref<const std::string&>());
  if (value.is_primitive()) return value.dump();
  return std::string("an ") + value.type_name();
}

Section::Section(const json& value, std::string where) : value_(&value), where_(std::move(where)) {
  if (!value.is_null() && !value.is_object())
    throw Error(where_ + ": expected an object, found " + show(value));
}

std::string Section::where(const char* key) const {
  return where_ + (where_.find(": ") == std::string::npos ? ": " : ".") + key;
}

std::string Section::type() const { return missing() ? "" : string("type", ""); }
bool Section::flag(const char* key, std::optional<bool> otherwise) const {
  return missing() ? otherwise.value() : io::get_bool(*value_, key, where_, otherwise);
}
size_t Section::size(const char* key, std::optional<size_t> otherwise, size_t max) const {
  return missing() ? otherwise.value() : io::get_size(*value_, key, where_, otherwise, max);
}
std::string Section::string(const char* key, std::optional<std::string> otherwise) const {
  return missing() ? otherwise.value() : io::get_string(*value_, key, where_, otherwise);
}

const json* Section::find(const char* key) const {
  if (missing()) return nullptr;
  auto it = value_->find(key);
  return it == value_->end() || it->is_null() ? nullptr : &*it;
}

Section Section::section(const char* key) const {
  static const json kNull;
  const json* value = find(key);
  return {value ? *value : kNull, where(key)};
}

std::vector<Section> Section::sections(const char* key) const {
  const json* list = find(key);
  if (!list || !list->is_array() || list->size() > 64) throw Error(where(key) + ": expected a short array");
  std::vector<Section> out;
  for (size_t i = 0; i < list->size(); ++i)
    out.emplace_back((*list)[i], where(key) + "[" + std::to_string(i) + "]");
  return out;
}

void Section::unsupported(const char* key, const std::string& expected) const {
  const json* found = find(key);
  throw Error(where(key) + ": expected " + expected + ", found " + (found ? show(*found) : "nothing"),
              "docs/tokenizing.md lists what a tokenizer.json may hold.");
}

std::vector<Section> flattened(const Section& section, const char* key) {
  if (section.missing()) return {};
  if (section.type() != "Sequence") return {section};
  std::vector<Section> out;
  for (const Section& item : section.sections(key))
    for (const Section& step : flattened(item, key)) {
      if (out.size() == 64) throw Error(section.where() + ": more than 64 steps");
      out.push_back(step);
    }
  return out;
}

}  // namespace bertie::text
