// Arguments to Settings, by the table.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "bertie/nearest.h"
#include "cli/options.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

const Option* find_option(const Command* command, const auto& matches) {
  if (command)
    for (const Option& option : command->options)
      if (matches(option)) return &option;
  for (const Option& option : global_options())
    if (matches(option)) return &option;
  return nullptr;
}

std::string help_line(const Command* command) {
  return command ? fmt::format("bertie help {}", command->name) : "bertie help";
}

[[noreturn]] void unknown_option(std::string_view given, std::string_view name, const Command* command) {
  const std::string what = fmt::format("there is no option {}", printable(given));
  for (const Command& other : commands())
    if (&other != command)
      for (const Option& option : other.options)
        if (option.name == name && !command)
          throw UsageError(what + " before a command",
                           fmt::format("bertie {} {}", other.name, spelling(option)));
  std::vector<std::string_view> known;
  for (const Option& option : command ? options_of(*command) : global_options()) known.push_back(option.name);
  const std::string_view meant = nearest(name, known);
  const std::string where = command ? fmt::format(" for bertie {}", command->name) : "";
  if (!meant.empty() && given.starts_with("--")) throw UsageError(what + where, fmt::format("--{}", meant));
  throw UsageError(what + where,
                   fmt::format("{}; text that begins with - goes after --", help_line(command)));
}

// What to try in the place of a number that is none.
template <class Number>
std::string example_of(const Option& option) {
  if (!option.example.empty()) return std::string(option.example);
  const std::string_view standard = option.standard;
  Number value{};
  if (read_number(standard, value) && value > 0) return std::string(standard);
  return fmt::format("{}", std::max<size_t>(option.least, 1));
}

template <class Number>
Number parse_number(const Option& option, std::string_view text) {
  Number value{};
  const bool below_zero = option.signed_number && !std::is_integral_v<Number>;
  const Number least = below_zero ? Number(0) - Number(option.most) : Number(option.least);
  const bool good = read_number(text, value) && value >= least && value <= Number(option.most);
  if (!good)
    throw UsageError(fmt::format("--{} takes a {}number from {}{} to {}, not {}", option.name,
                                 std::is_integral_v<Number> ? "whole " : "", below_zero ? "-" : "",
                                 below_zero ? option.most : option.least, option.most, in_quotes(text)),
                     fmt::format("--{} {}", option.name, example_of<Number>(option)));
  return value;
}

int choice_named(const Option& option, std::string_view word) {
  for (const Choice& choice : option.choices)
    if (choice.word == word) return choice.value;
  if (option.takes_other_words) return 0;
  const std::vector<std::string_view> known = words_of(option.choices);
  const std::string_view meant = nearest(word, known);
  throw UsageError(fmt::format("--{} takes {}, not {}", option.name, fmt::join(known, ", "), in_quotes(word)),
                   fmt::format("--{} {}", option.name, meant.empty() ? known[0] : meant));
}

void store(const Option& option, std::string_view value, Settings& settings) {
  // Of two numbers the later counts, as is usual; but a file that is left aside would not be missed.
  const bool takes_many = std::holds_alternative<std::vector<std::string> Settings::*>(option.to);
  if (names_file(option) && !takes_many && is_given(option, settings))
    throw UsageError(fmt::format("--{} was given twice, and takes one {}", option.name, option.argument),
                     option.argument == "FILE" ? "cat joins files of lines" : help_line(nullptr));
  const int choice = option.choices.empty() ? 0 : choice_named(option, value);
  std::visit(
      [&](auto member) {
        auto& place = settings.*member;
        using Place = std::remove_reference_t<decltype(place)>;
        if constexpr (std::is_same_v<Place, bool>)
          place = true;
        else if constexpr (std::is_same_v<Place, std::optional<size_t>>)
          place = parse_number<size_t>(option, value);
        else if constexpr (std::is_same_v<Place, std::optional<double>>)
          place = parse_number<double>(option, value);
        else if constexpr (std::is_same_v<Place, std::optional<int>>)
          place = choice;
        else if constexpr (std::is_same_v<Place, std::optional<std::string>>)
          place = std::string(value);
        else
          place.emplace_back(value);
      },
      option.to);
}

void check_words(const Command& command, Settings& settings) {
  if (settings.words.size() > command.most_words) {
    const std::string extra = in_quotes(settings.words[command.most_words]);
    throw UsageError(
        command.most_words == 0
            ? fmt::format("bertie {} takes no words, but got {}", command.name, extra)
            : fmt::format("bertie {} takes {}, so {} is too many", command.name, command.words, extra),
        command.words == "TEXT" ? fmt::format("put the text in quotes: bertie {} \"{} {}\"", command.name,
                                              printable(settings.words[0]), printable(settings.words[1]))
                                : help_line(&command));
  }
  if (command.choices.empty()) return;
  const std::vector<std::string_view> known = words_of(command.choices);
  const std::string all = fmt::format("{}", fmt::join(known, ", "));
  if (settings.words.empty())
    throw UsageError(fmt::format("bertie {} needs to know what: {}", command.name, all),
                     fmt::format("bertie {} {}", command.name, known[0]));
  const auto found = std::find(known.begin(), known.end(), settings.words[0]);
  if (found != known.end()) {
    settings.first_word = command.choices[size_t(found - known.begin())].value;
    return;
  }
  const std::string_view meant = nearest(settings.words[0], known);
  throw UsageError(
      fmt::format("bertie {} knows {}, but not {}", command.name, all, in_quotes(settings.words[0])),
      fmt::format("bertie {} {}", command.name, meant.empty() ? known[0] : meant));
}

}  // namespace

std::vector<std::string_view> words_of(const std::vector<Choice>& choices) {
  std::vector<std::string_view> words;
  for (const Choice& choice : choices) words.push_back(choice.word);
  return words;
}

std::vector<Option> options_of(const Command& command) {
  std::vector<Option> all = command.options;
  for (const Option& option : global_options())
    if (std::ranges::find(command.options, option.name, &Option::name) == command.options.end())
      all.push_back(option);
  return all;
}

bool names_file(const Option& option) {
  return option.argument == "FILE" || option.argument == "DIR" || option.argument == "MODEL";
}

bool is_given(const Option& option, const Settings& settings) {
  return std::visit(
      [&](auto member) {
        const auto& place = settings.*member;
        if constexpr (requires { place.empty(); })
          return !place.empty();
        else
          return bool(place);
      },
      option.to);
}

std::string variable_of(const Option& option) {
  std::string name = fmt::format("BERTIE_{}", option.name);
  for (char& c : name) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? char(c - 32) : c;
  return name;
}

std::string spelling(const Option& option) {
  return fmt::format("--{}{}{}", option.name, option.argument.empty() ? "" : " ", option.argument);
}

const Command& command_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    known.push_back(command.name);
  }
  const std::string_view meant = nearest(name, known);
  throw UsageError(fmt::format("there is no command {}", in_quotes(name)),
                   meant.empty() ? "bertie help" : fmt::format("bertie {}", meant));
}

Invocation parse(const std::vector<std::string>& arguments) {
  Invocation result;
  const Command*& command = result.command;
  Settings& settings = result.settings;
  settings.arguments = arguments;
  bool only_words = false;
  size_t next = 0;

  // The argument of the option that was just read: what is left of this word, or the next one.
  const auto argument_of = [&](const Option& option,
                               std::optional<std::string_view> attached) -> std::string_view {
    if (attached) return *attached;
    if (next < arguments.size()) return arguments[next++];
    throw UsageError(fmt::format("--{} needs its {}", option.name, option.argument),
                     "bertie … " + spelling(option));
  };

  while (next < arguments.size()) {
    const std::string_view word = arguments[next++];
    if (only_words || word.size() < 2 || word[0] != '-') {
      if (command)
        settings.words.emplace_back(word);
      else
        command = &command_named(word), settings.command = command->name;
    } else if (word == "--") {
      only_words = true;
    } else if (word[1] == '-') {
      const size_t equals = word.find('=');
      const std::string_view name = word.substr(2, equals == word.npos ? equals : equals - 2);
      const Option* option = find_option(command, [&](const Option& o) {
        return o.name == name || (!o.old_name.empty() && o.old_name == name);
      });
      if (!option) unknown_option(word.substr(0, equals), name, command);
      std::optional<std::string_view> attached;
      if (equals != word.npos) attached = word.substr(equals + 1);
      if (option->argument.empty() && attached)
        throw UsageError(fmt::format("--{} takes no value", option->name), fmt::format("--{}", option->name));
      store(*option, option->argument.empty() ? std::string_view() : argument_of(*option, attached),
            settings);
    } else {
      std::vector<std::pair<const Option*, std::string_view>> found;  // all of them before any is stored
      for (size_t i = 1; i < word.size(); ++i) {
        const Option* option = find_option(command, [&](const Option& o) { return o.letter == word[i]; });
        if (!option) unknown_option(word, word.substr(1), command);
        if (option->argument.empty()) {
          found.emplace_back(option, std::string_view());
          continue;
        }
        std::optional<std::string_view> attached;
        if (i + 1 < word.size()) attached = word.substr(i + 1);
        found.emplace_back(option, argument_of(*option, attached));
        break;
      }
      for (const auto& [option, value] : found) store(*option, value, settings);
    }
    if (settings.help || settings.version) return result;
  }
  if (command) check_words(*command, settings);
  if (command && command->variables)
    for (const Option& option : options_of(*command)) {
      if (option.name == "help" || option.name == "version") continue;
      const std::string variable = variable_of(option);
      const char* value = std::getenv(variable.c_str());
      if (!value || !*value || is_given(option, settings)) continue;
      const std::string_view text = value;
      if (option.argument.empty() && (text == "0" || text == "false" || text == "no")) continue;
      try {
        store(option, text, settings);
      } catch (const UsageError& error) {
        throw UsageError(fmt::format("{} (from ${})", error.what(), variable), error.hint());
      }
    }
  if (settings.json && settings.format && *settings.format != int(ResultFormat::kJson))
    throw UsageError("--json and another --format exclude each other", "one of them");
  if (settings.format == int(ResultFormat::kJson)) settings.json = true;
  return result;
}

}  // namespace bertie::cli
