#include "text/steps/post_processor.h"

namespace bertie::text {
namespace {

using nlohmann::json;

class Maker {
 public:
  Maker(const Section& section, const Vocabulary& vocabulary) : s_(section), vocabulary_(vocabulary) {}

  void add_to(PostProcessor& out) {
    std::string type = s_.type();
    if (type == "BertProcessing") {
      set_frame(out, bert_frame(named_id("cls"), named_id("sep")));
    } else if (type == "RobertaProcessing") {
      set_frame(out, roberta_frame(named_id("cls"), named_id("sep")));
      if (s_.flag("trim_offsets", true)) out.trims.push_back(s_.flag("add_prefix_space", true));
    } else if (type == "ByteLevel") {
      if (s_.flag("trim_offsets", true)) out.trims.push_back(s_.flag("add_prefix_space", true));
    } else if (type == "TemplateProcessing") {
      PostProcessor frame;
      frame.single = read_template("single", 1), frame.pair = read_template("pair", 2);
      set_frame(out, std::move(frame));
    } else {
      s_.unsupported("type", "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
    }
  }

 private:
  void set_frame(PostProcessor& out, PostProcessor frame) const {
    if (out.single.size() > 1 || out.pair.size() > 2)
      throw Error(s_.where() + ": a second frame around the first is not supported");
    out.single = std::move(frame.single), out.pair = std::move(frame.pair);
  }

  int32_t checked_id(const json& id, const std::string& where) const {
    if (!id.is_number_unsigned() || !vocabulary_.has(id.get<size_t>()))
      throw Error(where + ": " + show(id) + " is not the id of a token");
    return id.get<int32_t>();
  }
  int32_t named_id(const char* key) const {
    const json* pair = s_.find(key);
    if (!pair || !pair->is_array() || pair->size() != 2)
      throw Error(s_.where(key) + ": expected [token, id]");
    return checked_id((*pair)[1], s_.where(key));
  }

  std::vector<TemplateItem> read_template(const char* key, int texts) const {
    std::string where = s_.where(key);
    std::vector<TemplateItem> items;
    int count[2] = {0, 0};
    for (const Section& section : s_.sections(key)) {
      const json& item = section.value();
      if (!item.is_object() || item.size() != 1 || !item.begin()->is_object())
        throw Error(where + ": expected {\"Sequence\": ...} or {\"SpecialToken\": ...}, found " + show(item));
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
    Section all = s_.section("special_tokens");
    Section entry = all.section(token.c_str());
    if (entry.missing())
      throw Error(all.where() + ": the template's token " + io::quote(token) + " is missing");
    const json* ids = entry.find("ids");
    if (!ids || !ids->is_array() || ids->size() > 64)
      throw Error(all.where() + ": " + io::quote(token) + " has no short list of ids");
    std::vector<int32_t> out;
    for (const json& id : *ids) out.push_back(checked_id(id, all.where()));
    return out;
  }

  const Section& s_;
  const Vocabulary& vocabulary_;
};

}  // namespace

PostProcessor bert_frame(int32_t cls, int32_t sep) {
  PostProcessor p;
  p.single = {{-1, 0, {cls}}, {0, 0, {}}, {-1, 0, {sep}}};
  p.pair = {{-1, 0, {cls}}, {0, 0, {}}, {-1, 0, {sep}}, {1, 1, {}}, {-1, 1, {sep}}};
  return p;
}

PostProcessor roberta_frame(int32_t cls, int32_t sep) {
  PostProcessor p;
  p.single = {{-1, 0, {cls}}, {0, 0, {}}, {-1, 0, {sep}}};
  p.pair = {{-1, 0, {cls}}, {0, 0, {}}, {-1, 0, {sep, sep}}, {1, 0, {}}, {-1, 0, {sep}}};
  return p;
}

PostProcessor make_post_processor(const Section& section, const Vocabulary& vocabulary) {
  PostProcessor out;
  for (const Section& step : flattened(section, "processors")) Maker(step, vocabulary).add_to(out);
  return out;
}

}  // namespace bertie::text
