// Help, man page and Markdown: pages made from the table, then written in one of three ways.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

struct Block {
  enum Kind { kHeading, kSubheading, kText, kItem, kCode } kind;
  std::string text;
  std::string term = {};  // of an item
};
using Page = std::vector<Block>;

std::string usage(const Command& command) {
  return fmt::format("bertie {} [options]{}{}", command.name, command.words.empty() ? "" : " ",
                     command.words);
}

void add_paragraphs(Page& page, std::string_view text, bool apart = false) {
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    if (apart) page.push_back({Block::kText, ""});
    page.push_back({Block::kText, std::string(text.substr(0, end))});
    text.remove_prefix(std::min(end + 2, text.size()));
  }
}

void add_options(Page& page, std::span<const Option> options) {
  for (const Option& option : options) {
    const std::string letter = option.letter ? fmt::format("-{}, ", option.letter) : "";
    std::string help(option.help);
    if (!option.choices.empty() && !option.takes_other_words)
      help += fmt::format(": {}", fmt::join(words_of(option.choices), ", "));
    if (!option.standard.empty()) help += fmt::format(" (default: {})", option.standard);
    page.push_back({Block::kItem, help, letter + spelling(option)});
  }
}

void add_choices(Page& page, const std::vector<Choice>& choices) {
  for (const Choice& choice : choices)
    page.push_back({Block::kItem, std::string(choice.help), std::string(choice.word)});
}

void add_examples(Page& page, const Command& command) {
  for (const Example& example : command.examples)
    page.push_back({Block::kCode, fmt::format("{}  # {}", example.command, example.what)});
}

void add_commands(Page& page) {
  for (const Command& command : commands())
    page.push_back({Block::kItem, std::string(command.summary), std::string(command.name)});
}

const std::string kAbout =
    "Bertie is BERT: text in, tokens, sentence vectors and attention weights out, equal to Hugging Face's "
    "and at the speed of the machine. Results go to standard output, everything else to standard error.";

// Everything, for the man page and docs/cli.md.
Page manual() {
  Page page;
  page.push_back({Block::kHeading, "Description"});
  page.push_back({Block::kText, kAbout});
  page.push_back({Block::kHeading, "Commands"});
  for (const Command& command : commands()) {
    page.push_back({Block::kSubheading, fmt::format("bertie {}", command.name)});
    std::string summary(command.summary);
    summary[0] = char(std::toupper(summary[0]));
    page.push_back({Block::kText, summary + "."});
    page.push_back({Block::kCode, usage(command)});
    add_paragraphs(page, command.about);
    add_choices(page, command.choices);
    add_options(page, command.options);
    if (!command.examples.empty()) page.push_back({Block::kText, "Examples:"});
    add_examples(page, command);
  }
  page.push_back({Block::kHeading, "Options of every command"});
  add_options(page, global_options());
  page.push_back({Block::kHeading, "Environment"});
  add_choices(page, environment());
  page.push_back({Block::kHeading, "Exit codes"});
  add_choices(page, exit_codes());
  return page;
}

std::string as_text(const Page& page) {
  constexpr size_t kTermMost = 24;
  const size_t width = std::min<size_t>(output_width(), 100);
  const Style style = Style::for_output();
  size_t term_width = 0, code_width = 0;
  for (const Block& block : page) {
    if (block.kind == Block::kItem)
      term_width = std::max(term_width, std::min(display_width(block.term), kTermMost));
    if (const size_t comment = block.text.find("  # ");
        block.kind == Block::kCode && comment != block.text.npos)
      code_width = std::max(code_width, comment);
  }
  std::string out;
  for (const Block& block : page) {
    switch (block.kind) {
      case Block::kHeading:
      case Block::kSubheading:
        out += '\n' + style.bold(block.text) + '\n';
        break;
      case Block::kText:
        out += wrap(block.text, width);
        break;
      case Block::kItem: {
        const size_t indent = 2 + term_width + 2;
        out += "  " + style.accent(block.term);
        out += display_width(block.term) > term_width
                   ? '\n' + std::string(indent, ' ')
                   : std::string(indent - 2 - display_width(block.term), ' ');
        out += wrap(block.text, width, indent);
        break;
      }
      case Block::kCode: {
        const size_t comment = block.text.find("  # ");
        const std::string command = block.text.substr(0, comment);
        const std::string what = comment == block.text.npos ? "" : block.text.substr(comment + 2);
        // The comment goes beside its command where there is room in every line, and above it otherwise.
        if (what.empty())
          out += "  " + command + '\n';
        else if (code_width + 36 <= width)
          out += "  " + pad(command, code_width + 2) + style.dim(what) + '\n';
        else
          out += "  " + style.dim(what) + "\n  " + command + '\n';
        break;
      }
    }
  }
  return out;
}

std::string as_markdown(const Page& page) {
  const auto escape = [](std::string_view text) {
    std::string out;
    for (char c : text) {
      if (c == '<' || c == '*' || c == '_' || c == '[' || c == ']') out += '\\';
      out += c;
    }
    return out;
  };
  std::string out;
  Block::Kind before = Block::kText;
  for (const Block& block : page) {
    if (before == Block::kCode && block.kind != Block::kCode) out += "```\n";
    if (block.kind != before || block.kind == Block::kText) out += '\n';
    switch (block.kind) {
      case Block::kHeading:
        out += "## " + block.text + '\n';
        break;
      case Block::kSubheading:
        out += "### " + block.text + '\n';
        break;
      case Block::kText:
        out += wrap(escape(block.text), 100);
        break;
      case Block::kItem:
        out += "- " + wrap(fmt::format("`{}`: {}", block.term, escape(block.text)), 100, 2);
        break;
      case Block::kCode:
        if (before != Block::kCode) out += "```sh\n";
        out += block.text + '\n';
        break;
    }
    before = block.kind;
  }
  return out;
}

std::string as_roff(const Page& page) {
  const std::string code_end = "\n.RE\n.fi\n";
  const auto escape = [](std::string_view text) {
    std::string out;
    for (char c : text) {
      if (c == '\\')
        out += "\\e";
      else if (c == '-')
        out += "\\-";
      else if (c == '\'' && out.empty())
        out += "\\&'";
      else if (c == '.' && out.empty())
        out += "\\&.";
      else
        out += c;
    }
    return out;
  };
  std::string out;
  for (const Block& block : page) {
    switch (block.kind) {
      case Block::kHeading: {
        std::string name = block.text;
        std::transform(name.begin(), name.end(), name.begin(), [](char c) { return char(std::toupper(c)); });
        out += ".SH \"" + name + "\"\n";
        break;
      }
      case Block::kSubheading:
        out += ".SS \"" + escape(block.text) + "\"\n";
        break;
      case Block::kText:
        out += ".PP\n" + escape(block.text) + '\n';
        break;
      case Block::kItem:
        out += ".TP\n\\fB" + escape(block.term) + "\\fR\n" + escape(block.text) + '\n';
        break;
      case Block::kCode:
        if (out.ends_with(code_end))
          out.resize(out.size() - code_end.size() + 1);
        else
          out += ".PP\n.nf\n.RS 4\n";
        out += escape(block.text) + code_end;
        break;
    }
  }
  return out;
}

}  // namespace

std::string greeting() {
  const Style style = Style::for_output();
  const Example tries[] = {{"bertie demo", "see what BERT does"},
                           {"bertie fill-mask \"She opened the [MASK].\"", "a word is missing"},
                           {"bertie view \"You found me.\"", "who looks at whom, as a page"}};
  std::string out =
      style.bold("bertie") + " is BERT that you can watch: text in, vectors and attention out.\n\n";
  for (const Example& example : tries)
    out += "  " + style.accent(pad(example.command, 44)) + style.dim(example.what) + '\n';
  out += "\nA small model is in the box; --model NAME takes any other (bertie help pull).";
  return out + "\nHelp: bertie help, bertie help COMMAND, man bertie\n";
}

std::string program_help() {
  Page page;
  page.push_back(
      {Block::kText, "bertie " BERTIE_VERSION ": text to tokens, vectors and attention, with BERT"});
  page.push_back({Block::kHeading, "Usage"});
  page.push_back({Block::kCode, "bertie COMMAND [options] [words]"});
  page.push_back({Block::kHeading, "Commands"});
  add_commands(page);
  page.push_back({Block::kHeading, "Options of every command"});
  add_options(page, global_options());
  page.push_back({Block::kHeading, "Environment"});
  add_choices(page, environment());
  page.push_back({Block::kHeading, "Exit codes"});
  add_choices(page, exit_codes());
  return as_text(page) + "\nbertie help COMMAND tells more about one.\n";
}

std::string command_help(const Command& command) {
  Page page;
  page.push_back({Block::kText, fmt::format("bertie {}: {}", command.name, command.summary)});
  page.push_back({Block::kHeading, "Usage"});
  page.push_back({Block::kCode, usage(command)});
  add_paragraphs(page, command.about, true);
  if (!command.choices.empty()) {
    page.push_back({Block::kHeading, std::string(command.words.substr(0, command.words.find(' ')))});
    add_choices(page, command.choices);
  }
  if (!command.options.empty()) {
    page.push_back({Block::kHeading, "Options"});
    add_options(page, command.options);
  }
  const std::vector<Option> all = options_of(command);
  page.push_back({Block::kHeading, "Options of every command"});
  add_options(page, std::span(all).subspan(command.options.size()));
  page.push_back({Block::kHeading, "Examples"});
  add_examples(page, command);
  return as_text(page);
}

std::string manual_as_man_page() {
  std::string synopsis;
  for (const Command& command : commands())
    synopsis += fmt::format(".br\n\\fBbertie {}\\fR [options] {}\n", command.name, command.words);
  return ".TH BERTIE 1 \"\" \"bertie " BERTIE_VERSION
         "\" \"User Commands\"\n.SH NAME\n"
         "bertie \\- text to tokens, vectors and attention, with BERT\n.SH SYNOPSIS\n" +
         synopsis.substr(4) + as_roff(manual());
}

std::string manual_as_markdown() {
  return "# The command line\n\nMade by `bertie help --markdown`; see also `man bertie`.\n" +
         as_markdown(manual());
}

int help_command(const Settings& settings) {
  if (settings.man) return print(manual_as_man_page()), 0;
  if (settings.markdown) return print(manual_as_markdown()), 0;
  if (settings.words.empty()) return print(program_help()), 0;
  return print(command_help(command_named(settings.words[0]))), 0;
}

}  // namespace bertie::cli
