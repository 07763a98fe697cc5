#pragma once
// Who may include whom, as docs/architecture.md draws it. Calls go down only.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::test {

// Each room and the rooms whose headers it may include, besides its own. Clients have public headers only.
inline const std::map<std::string, std::set<std::string>, std::less<>> kMayInclude = {
    {"core", {}},
    {"io", {"core"}},
    {"hub", {"core", "io"}},
    {"text", {"core", "io"}},
    {"kernels", {"core"}},
    {"attention", {"core", "kernels"}},
    {"model", {"core", "io", "kernels", "attention"}},
    {"tasks", {"core", "io", "hub", "text", "kernels", "attention", "model"}},
    {"train", {"core", "io", "hub", "text", "kernels", "attention", "model", "tasks"}},
    {"explain", {"core", "io", "hub", "text", "kernels", "attention", "model", "tasks"}},
    {"serve", {"core", "io", "hub", "text", "kernels", "attention", "model", "tasks", "explain"}},
    {"cli", {}},
};

// Each public header and the room that implements it. A room may include those of its own and of the rooms
// below; a client all of them.
inline const std::map<std::string, std::string, std::less<>> kRoomOfPublicHeader = {
    {"attention.h", "attention"},
    {"attention_reference.h", "attention"},
    {"attention_reference_nystrom.h", "attention"},
    {"baselines.h", "train"},
    {"atlas.h", "explain"},
    {"bench.h", "tasks"},
    {"bertie.h", "client"},
    {"config.h", "model"},
    {"conllu.h", "io"},
    {"convert.h", "tasks"},
    {"data.h", "train"},
    {"dataset.h", "train"},
    {"draw.h", "explain"},
    {"dropout.h", "kernels"},
    {"error.h", "core"},
    {"evaluate.h", "train"},
    {"explain.h", "explain"},
    {"export.h", "core"},
    {"finetune.h", "train"},
    {"files.h", "io"},
    {"heads.h", "explain"},
    {"hub.h", "hub"},
    {"info.h", "tasks"},
    {"journal.h", "io"},
    {"json.h", "tasks"},
    {"json_writer.h", "tasks"},
    {"launcher.h", "train"},
    {"model.h", "model"},
    {"nearest.h", "core"},
    {"npy.h", "io"},
    {"prune.h", "tasks"},
    {"quantize.h", "tasks"},
    {"result_file.h", "io"},
    {"results.h", "tasks"},
    {"senses.h", "explain"},
    {"serve.h", "serve"},
    {"similarity.h", "tasks"},
    {"table.h", "train"},
    {"text_model.h", "tasks"},
    {"tokenizer.h", "text"},
    {"train.h", "train"},
    {"transformer.h", "model"},
    {"utf8.h", "text"},
    {"vector_index.h", "tasks"},
    {"view.h", "core"},
    {"weight_format.h", "kernels"},
};

// The header that a line includes: its name, and whether in quotes.
struct Include {
  std::string name;
  bool quoted = false;
};

inline std::optional<Include> parse_include(std::string_view line) {
  const auto skip_spaces = [&] {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  };
  skip_spaces();
  if (!line.starts_with('#')) return {};
  line.remove_prefix(1);
  skip_spaces();
  if (!line.starts_with("include")) return {};
  line.remove_prefix(7);
  skip_spaces();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return {};
  const bool quoted = line[0] == '"';
  const size_t end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return {};
  return Include{std::string(line.substr(1, end - 1)), quoted};
}

// What is wrong with the includes of one file; `room` is its folder in src/, or "bertie" for a public header.
inline std::vector<std::string> wrong_includes(const std::string& room, std::string_view source) {
  std::vector<std::string> wrong;
  const auto rule = kMayInclude.find(room);
  if (room != "bertie" && rule == kMayInclude.end()) wrong.push_back("no rule for room " + room);
  while (!source.empty()) {
    const size_t end = source.find('\n');
    const std::string_view line = source.substr(0, end);
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
    const auto include = parse_include(line);
    if (!include) continue;
    const std::string to = include->name.substr(0, include->name.find('/'));
    const bool has_folder = include->name.find('/') != std::string::npos;
    const bool ours = has_folder && (to == "bertie" || kMayInclude.contains(to));
    if (include->name.find("..") != std::string::npos) wrong.push_back(include->name + " climbs");
    if (!include->quoted) {
      // A public header leans on the standard library and nothing else: it is all a user must have.
      if (room == "bertie" && has_folder) wrong.push_back("<" + include->name + "> in a public header");
      if (ours) wrong.push_back("<" + include->name + "> should be in quotes");
      continue;
    }
    if (!ours) {
      wrong.push_back("\"" + include->name + "\" names no room");
    } else if (to == "bertie" && include->name.find("..") == std::string::npos) {
      const auto header = kRoomOfPublicHeader.find(include->name.substr(to.size() + 1));
      const bool sees_all = room == "bertie" || room == "cli";
      if (header == kRoomOfPublicHeader.end())
        wrong.push_back(include->name + " is of no room");
      else if (!sees_all && header->second != room &&
               (rule == kMayInclude.end() || !rule->second.contains(header->second)))
        wrong.push_back(room + " includes " + include->name + ", which " + header->second + " implements");
    } else if (to != "bertie" && to != room &&
               (room == "bertie" || rule == kMayInclude.end() || !rule->second.contains(to))) {
      wrong.push_back(room + " includes " + include->name);
    }
  }
  return wrong;
}

}  // namespace bertie::test
