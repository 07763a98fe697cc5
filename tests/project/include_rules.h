#pragma once
// Who may include whom, as docs/architecture.md draws it. Calls go down only.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::test {

// Each room and the rooms whose headers it may include, besides its own and bertie/.
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
    {"cli", {"core", "io", "hub", "text", "kernels", "attention", "model", "tasks", "train", "explain"}},
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
    } else if (to != "bertie" && to != room &&
               (room == "bertie" || rule == kMayInclude.end() || !rule->second.contains(to))) {
      wrong.push_back(room + " includes " + include->name);
    }
  }
  return wrong;
}

}  // namespace bertie::test
