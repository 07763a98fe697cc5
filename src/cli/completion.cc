// Completion scripts for bash, zsh and fish, made from the table.
#include <fmt/format.h>

#include <algorithm>

#include "cli/options.h"
#include "cli/output.h"

namespace bertie::cli {
namespace {

// What completes as a folder: a model may be one.
bool is_folder(std::string_view argument) { return argument == "DIR" || argument == "MODEL"; }

std::string joined_words(const std::vector<Choice>& choices) {
  return fmt::format("{}", fmt::join(words_of(choices), " "));
}

std::string command_names() {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// What a command's words may be: some names, and folders or files.
struct Words {
  std::string names;
  bool folders, files;
};

Words words_of(const Command& command) {
  const auto has = [&](std::string_view word) { return command.words.find(word) != command.words.npos; };
  return {.names = has("COMMAND") ? command_names() : joined_words(command.choices),
          .folders = has("MODEL"),
          .files = has("FILE") || has("FROM") || has("PATH")};
}

std::string bash_words(const Command& command) {
  const auto [names, folders, files] = words_of(command);
  std::vector<std::string> found;
  if (!names.empty()) found.push_back(fmt::format("$(compgen -W '{}' -- \"$word\")", names));
  if (folders || files) found.push_back(fmt::format("$(compgen -{} -- \"$word\")", files ? 'f' : 'd'));
  return fmt::format("COMPREPLY=({})", fmt::join(found, " "));
}

std::string bash_argument(const Option& option) {
  if (!option.choices.empty())
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", joined_words(option.choices));
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
  if (!choices.empty()) return fmt::format(":{}:({})", argument, joined_words(choices));
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
    const auto [words, folders, files] = words_of(command);
    if (!words.empty())
      specs +=
          fmt::format(" \\\n          '1:{}:({})'", command.words.substr(0, command.words.find(' ')), words);
    if (folders) specs += " \\\n          '1:MODEL:_files -/'";
    if (files) specs += " \\\n          '*:FILE:_files'";
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
      out += fmt::format(" -x -a '{}'", joined_words(option.choices));
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
    const auto [words, folders, files] = words_of(command);
    if (command.choices.empty() && !words.empty())
      out += fmt::format("complete -c bertie{} -a '{}'\n", condition, words);
    if (folders) out += fmt::format("complete -c bertie{} -a '(__fish_complete_directories)'\n", condition);
    if (files) out += fmt::format("complete -c bertie{} -F\n", condition);
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
