#include "cli/inputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>

#include "cli/output.h"
#include "cli/terminal.h"
#include "io/json.h"

namespace bertie::cli {
namespace {

constexpr size_t kBlockInputs = 256;
constexpr size_t kBlockBytes = size_t{1} << 15;

// Two words are one input, and leave nothing to be read.
std::optional<Input> from_words(const Settings& settings, Fields fields) {
  if (settings.words.empty()) return {};
  if (settings.words.size() != 2 || !settings.files.empty())
    throw UsageError("two texts are needed, or --file with lines of two",
                     fmt::format("\"{}\" \"{}\", each in quotes", fields.a, fields.b));
  return Input{settings.words[0], settings.words[1]};
}

// Words are the input already; otherwise the lines of files or of standard input.
Settings without_words(Settings settings) {
  if (!settings.words.empty()) settings.words = {""};
  return settings;
}

}  // namespace

Inputs::Inputs(const Settings& settings) : texts_(settings) {}
Inputs::Inputs(const Settings& settings, Fields fields)
    : fields_(fields), first_(from_words(settings, fields)), texts_(without_words(settings)) {}
Inputs::Inputs(const Settings& settings, std::string context)
    : context_(std::move(context)), texts_(settings) {}

bool Inputs::next(Input& input) {
  std::string line;
  if (!texts_.next(line)) return false;
  ++count_;
  if (first_) return input = std::move(*first_), true;
  if (fields_) return split(line, input), true;
  input.a = std::move(line);
  input.b = context_.value_or("");
  return true;
}

void Inputs::split(std::string& line, Input& input) const {
  const size_t begin = line.find_first_not_of(" \t");
  const std::string where = fmt::format("line {}", count_);
  if (begin != line.npos && line[begin] == '{') {
    const nlohmann::json object = io::parse_json(line, where);
    input.a = io::get_string(object, fields_->a, where);
    input.b = io::get_string(object, fields_->b, where);
    return;
  }
  const size_t tab = line.find('\t');
  if (tab != line.npos && line.find('\t', tab + 1) != line.npos)
    throw Error(fmt::format("{} has more than two columns: {}", where, in_quotes(line)),
                "cut -f shows two columns of a table: cut -f 1,2 FILE");
  if (tab == line.npos)
    throw Error(fmt::format("{} is not two texts: {}", where, in_quotes(line)),
                fmt::format("two texts with a tab between them, or {{\"{}\": …, \"{}\": …}}", fields_->a,
                            fields_->b));
  input.b = line.substr(tab + 1);
  line.resize(tab);
  input.a = std::move(line);
}

void for_each_block(Inputs& inputs, Progress& progress,
                    const std::function<void(std::span<Input>, size_t)>& work) {
  std::vector<Input> block;
  while (true) {
    const size_t first = inputs.count();
    block.clear();
    size_t bytes = 0;
    Input input;
    while (block.size() < kBlockInputs && bytes < kBlockBytes && (block.empty() || inputs.ready()) &&
           inputs.next(input)) {
      bytes += input.a.size() + input.b.size();
      block.push_back(std::move(input));
    }
    if (block.empty()) return;
    work(block, first);
    if (!inputs.ready()) flush_output();
    progress.update(inputs.count(), inputs.texts());
  }
}

std::string read_whole(const std::string& file) {
  std::ifstream opened;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    if (!opened)
      throw Error(fmt::format("cannot read {}: {}", printable(file), std::generic_category().message(errno)),
                  "check the path, from the folder you are in");
  }
  std::istream& in = file == "-" ? std::cin : opened;
  std::string all{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw Error(fmt::format("cannot read {}", file == "-" ? "standard input" : printable(file)));
  return all;
}

}  // namespace bertie::cli
