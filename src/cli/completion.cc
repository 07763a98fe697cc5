// Completion scripts for bash, zsh and fish, made from the table.
#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"
#include "cli/output.h"

namespace bertie::cli {
namespace {

// What completes as a folder: a model may be one.
bool is_folder(std::string_view argument) { return argument == "DIR" || argument == "MODEL"; }

// Options that hold within a command, its own first.
std::vector<Option> options_of(const Command& command) {
  std::vector<Option> all = command.options;
  for (const Option& option : global_options())
    if (std::none_of(all.begin(), all.end(), [&](const Option& o) { return o.name == option.name; }))
      all.push_back(option);
  return all;
}

std::string words_of(const std::vector<Choice>& choices) {
  std::vector<std::string_view> words;
  for (const Choice& choice : choices) words.push_back(choice.word);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string command_names() {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// What may stand as a command's word: one of a few, the name of a command, or a path.
std::string bash_words(const Command& command) {
  if (command.name == "help")
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", command_names());
  if (command.name == "info") return "COMPREPLY=($(compgen -d -- \"$word\"))";
  if (command.choices.empty()) return "COMPREPLY=()";
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"){})", words_of(command.choices),
                     command.most_words > 1 ? " $(compgen -f -- \"$word\")" : "");
}

std::string bash_argument(const Option& option) {
  if (!option.choices.empty())
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", words_of(option.choices));
  if (option.argument == "FILE") return "COMPREPLY=($(compgen -f -- \"$word\"))";
  if (is_folder(option.argument)) return "COMPREPLY=($(compgen -d -- \"$word\"))";
  return "COMPREPLY=()";
}

std::string bash() {
  std::string valued, cases;
  for (const Option& option : global_options())
    if (!option.argument.empty())
      valued += fmt::format("{}--{}{}", valued.empty() ? "" : "|", option.name,
                            option.letter ? fmt::format("|-{}", option.letter) : "");
  const auto add_case = [&](std::string_view pattern, const std::vector<Option>& options,
                            const std::string& words) {
    std::string names, arguments;
    for (const Option& option : options) {
      names += fmt::format(" --{}", option.name);
      if (option.letter) names += fmt::format(" -{}", option.letter);
      if (!option.argument.empty())
        arguments +=
            fmt::format("        --{}{}) {}; return ;;\n", option.name,
                        option.letter ? fmt::format("|-{}", option.letter) : "", bash_argument(option));
    }
    cases += fmt::format(
        "    {})\n      case $before in\n{}      esac\n"
        "      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n"
        "      else {}; fi ;;\n",
        pattern, arguments, names.substr(1), words);
  };
  for (const Command& command : commands()) add_case(command.name, options_of(command), bash_words(command));
  add_case("*", global_options(),
           fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", command_names()));
  return fmt::format(R"(# bash completion for bertie
_bertie() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= i
  compopt -o filenames 2>/dev/null
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {}) ((i++)) ;;
      -*) ;;
      *) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case $command in
{}  esac
}}
complete -F _bertie bertie
)",
                     valued, cases);
}

std::string in_single_quotes(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out;
}

std::string zsh_help(std::string_view text) {  // brackets and colons mean something within a spec
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return in_single_quotes(out);
}

std::string zsh_argument(std::string_view argument, const std::vector<Choice>& choices) {
  if (!choices.empty()) return fmt::format(":{}:({})", argument, words_of(choices));
  if (argument == "FILE") return ":FILE:_files";
  if (is_folder(argument)) return fmt::format(":{}:_files -/", argument);
  return argument.empty() ? "" : fmt::format(":{}: ", argument);
}

std::string zsh() {
  std::string names, cases;
  for (const Command& command : commands()) {
    names += fmt::format("        '{}:{}'\n", command.name, zsh_help(command.summary));
    std::string specs;
    for (const Option& option : options_of(command)) {
      const std::string rest =
          fmt::format("[{}]{}", zsh_help(option.help), zsh_argument(option.argument, option.choices));
      const bool list = std::holds_alternative<std::vector<std::string> Settings::*>(option.to);
      specs += fmt::format(" \\\n          '{}--{}{}'", list ? "*" : "", option.name, rest);
      if (option.letter)
        specs += fmt::format(" \\\n          '{}-{}{}'", list ? "*" : "", option.letter, rest);
    }
    if (command.name == "help")
      specs += fmt::format(" \\\n          '1:COMMAND:({})'", command_names());
    else if (command.name == "info")
      specs += " \\\n          '1:MODEL:_files -/'";
    else if (!command.choices.empty())
      specs += fmt::format(" \\\n          '1:{}:({})'", command.words.substr(0, command.words.find(' ')),
                           words_of(command.choices));
    if (command.name == "bench") specs += " \\\n          '2:PATH:_files'";
    cases += fmt::format("        {})\n        _arguments -S{} ;;\n", command.name, specs);
  }
  std::string globals;
  for (const Option& option : global_options())
    globals += fmt::format(" \\\n    '--{}[{}]{}'", option.name, zsh_help(option.help),
                           zsh_argument(option.argument, option.choices));
  return fmt::format(R"(#compdef bertie
_bertie() {{
  local curcontext="$curcontext" state line
  local -a names
  _arguments -C -S{} \
    '1: :->command' '*:: :->words'
  case $state in
    command)
      names=(
{}      )
      _describe command names ;;
    words)
      case $line[1] in
{}      esac ;;
  esac
}}
if [[ $funcstack[1] == _bertie ]]; then _bertie "$@"; else compdef _bertie bertie; fi
)",
                     globals, names, cases);
}

std::string fish() {
  std::string out = "# fish completion for bertie\ncomplete -c bertie -f\n";
  const auto add_option = [&](const std::string& condition, const Option& option) {
    out += fmt::format("complete -c bertie{} -l {}", condition, option.name);
    if (option.letter) out += fmt::format(" -s {}", option.letter);
    if (!option.choices.empty())
      out += fmt::format(" -x -a '{}'", words_of(option.choices));
    else if (option.argument == "FILE")
      out += " -r -F";
    else if (is_folder(option.argument))
      out += " -x -a '(__fish_complete_directories)'";
    else if (!option.argument.empty())
      out += " -x";
    out += fmt::format(" -d '{}'\n", in_single_quotes(option.help));
  };
  for (const Command& command : commands())
    out += fmt::format("complete -c bertie -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                       in_single_quotes(command.summary));
  for (const Option& option : global_options()) add_option(" -n __fish_use_subcommand", option);
  for (const Command& command : commands()) {
    const std::string condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    for (const Choice& choice : command.choices)
      out += fmt::format("complete -c bertie{} -a {} -d '{}'\n", condition, choice.word,
                         in_single_quotes(choice.help));
    if (command.name == "help")
      out += fmt::format("complete -c bertie{} -a '{}'\n", condition, command_names());
    if (command.name == "info")
      out += fmt::format("complete -c bertie{} -a '(__fish_complete_directories)'\n", condition);
    if (command.name == "bench") out += fmt::format("complete -c bertie{} -F\n", condition);
    for (const Option& option : options_of(command)) add_option(condition, option);
  }
  return out;
}

}  // namespace

int completion_command(const Settings& settings) {
  switch (Shell(settings.first_word)) {
    case Shell::kBash:
      print(bash());
      break;
    case Shell::kZsh:
      print(zsh());
      break;
    case Shell::kFish:
      print(fish());
      break;
  }
  return 0;
}

}  // namespace bertie::cli
