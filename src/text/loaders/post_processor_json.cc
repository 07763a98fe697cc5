#include "io/json.h"
#include "text/json_object.h"
#include "text/loaders/loaders.h"

namespace bertie::text {
namespace {

using nlohmann::json;

// Reads one post-processor of the list.
class PostProcessorParser {
 public:
  PostProcessorParser(const JsonObject& object, const Vocabulary& vocabulary)
      : object_(object), vocabulary_(vocabulary) {}

  void add_to(PostProcessor& out) {
    const std::string type = object_.type();
    if (type == "BertProcessing") {
      set_templates(out, bert_template(named_id("cls"), named_id("sep")));
    } else if (type == "RobertaProcessing") {
      set_templates(out, roberta_template(named_id("cls"), named_id("sep")));
      add_trim_offsets(out);
    } else if (type == "ByteLevel") {
      add_trim_offsets(out);
    } else if (type == "TemplateProcessing") {
      PostProcessor templates;
      templates.single = read_template("single", 1), templates.pair = read_template("pair", 2);
      set_templates(out, std::move(templates));
    } else {
      object_.unsupported("type",
                          "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
    }
  }

 private:
  void set_templates(PostProcessor& out, PostProcessor from) const {
    if (out.single.size() > 1 || out.pair.size() > 2)
      throw Error(object_.where() + ": a second template around the first is not supported");
    out.single = std::move(from.single), out.pair = std::move(from.pair);
  }
  void add_trim_offsets(PostProcessor& out) const {
    if (object_.flag("trim_offsets", true))
      out.trim_offsets.push_back({object_.flag("add_prefix_space", true)});
  }

  int32_t checked_id(const json& id, const std::string& where) const {
    if (!id.is_number_unsigned() || !vocabulary_.has(id.get<size_t>()))
      throw Error(where + ": " + describe(id) + " is not the id of a token");
    return id.get<int32_t>();
  }
  int32_t named_id(const char* key) const {
    const json* pair = object_.find(key);
    if (!pair || !pair->is_array() || pair->size() != 2)
      throw Error(object_.where(key) + ": expected [token, id]");
    return checked_id((*pair)[1], object_.where(key));
  }

  Template read_template(const char* key, int texts) const {
    std::string where = object_.where(key);
    Template items;
    int count[2] = {0, 0};
    for (const JsonObject& object : object_.objects(key)) {
      const json& item = object.value();
      if (!item.is_object() || item.size() != 1 || !item.begin()->is_object())
        throw Error(where + ": expected {\"Sequence\": ...} or {\"SpecialToken\": ...}, found " +
                    describe(item));
      const json& body = *item.begin();
      std::string kind = item.begin().key(), id = io::get_string(body, "id", where);
      int32_t segment = int32_t(io::get_size(body, "type_id", where, 0, 1'000'000));
      if (kind == "Sequence" && (id == "A" || id == "B")) {
        ++count[id == "B"];
        items.push_back({id == "B", segment, {}});
      } else if (kind == "SpecialToken") {
        items.push_back({-1, segment, special_ids(id)});
      } else {
        throw Error(where + ": " + io::quote(kind) + " with id " + io::quote(id) + " is not supported");
      }
    }
    if (count[0] != 1 || count[1] != texts - 1)
      throw Error(where + ": the template must name " + (texts == 1 ? "A once" : "A and B once each"));
    return items;
  }

  std::vector<int32_t> special_ids(const std::string& token) const {
    JsonObject all = object_.object("special_tokens");
    JsonObject entry = all.object(token.c_str());
    if (entry.missing())
      throw Error(all.where() + ": the template's token " + io::quote(token) + " is missing");
    const json* ids = entry.find("ids");
    if (!ids || !ids->is_array() || ids->size() > 64)
      throw Error(all.where() + ": " + io::quote(token) + " has no short list of ids");
    std::vector<int32_t> out;
    for (const json& id : *ids) out.push_back(checked_id(id, all.where()));
    return out;
  }

  const JsonObject& object_;
  const Vocabulary& vocabulary_;
};

}  // namespace

PostProcessor read_post_processor(const JsonObject& object, const Vocabulary& vocabulary) {
  PostProcessor out;
  for (const JsonObject& step : flatten_sequence(object, "processors"))
    PostProcessorParser(step, vocabulary).add_to(out);
  return out;
}

}  // namespace bertie::text
