// bertie demo: what BERT does, one screen after the other. Each screen is a command that anybody can type.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "cli/model.h"
#include "cli/output.h"
#include "cli/terminal/steps_text.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

constexpr size_t kMostWidth = 80;
constexpr std::string_view kMask = "[MASK]";

struct Screen {
  std::string_view title, about;
  Work work;
  std::vector<std::vector<std::string>> commands;
};

const std::vector<Screen>& screens() {
  static const std::vector<Screen> all{
      {"A word is missing",
       "BERT learned by filling gaps: it reads what comes before and what comes after.",
       Work::kFillMask,
       {{"fill-mask", "She opened the [MASK] and walked into the house."}}},
      {"What comes next?",
       "It was asked whether one sentence follows another, too.",
       Work::kNextSentence,
       {{"next-sentence", "He was very tired when he came home.", "He went to bed at once."},
        {"next-sentence", "He was very tired when he came home.", "The species is found in Brazil."}}},
      {"Who and where",
       "Fine-tuned, it names people, places and organizations.",
       Work::kTag,
       {{"tag", "Barack Obama spoke to the European Parliament in Brussels."}}},
      {"Praise or complaint",
       "Or it tells whether somebody liked a film.",
       Work::kClassify,
       {{"classify", "A warm and funny film that I would gladly see again.",
         "Two hours of my life that nobody will give back to me."}}},
      {"What means the same?",
       "A text is a vector, and vectors that are near each other mean alike things.",
       Work::kRead,
       {{"similar", "--query", "The government raised taxes.", "Taxes were increased by the government.",
         "The parliament passed a new law.", "She opened the door and smiled at him."}}},
      {"One word, two meanings",
       "A static vector of \"bank\" is the same everywhere. BERT's depends on what is around it.",
       Work::kRead,
       {{"senses", "bank", "He sat on the bank of the river.", "The boat came near the bank of the stream.",
         "The bank lent him some money.", "The president of the bank said that prices would rise."}}},
      {"Who looks at whom",
       "One head of many. A row says how much a token looks at each other one: \"she\" and \"her\" look at "
       "Mary.",
       Work::kRead,
       {{"attend", "--layer", "1", "--head", "7", "Mary said that she had lost her book."}}}};
  return all;
}

// What to type, in lines of a shell that fit.
std::string line_of(const std::vector<std::string>& command) {
  const size_t width = std::min(output_width(), kMostWidth);
  std::string line = "$ bertie";
  size_t used = line.size();
  for (const std::string& word : command) {
    const std::string shown = word.find(' ') == word.npos ? word : fmt::format("\"{}\"", word);
    if (used + 1 + display_width(shown) + 2 > width && used > 4) line += " \\\n   ", used = 3;  // 2: " \"
    line += " " + shown, used += 1 + display_width(shown);
  }
  return line;
}

// Screens that the model can show.
std::vector<Screen> screens_for(const Settings& settings) {
  std::vector<Screen> possible;
  if (!names_model(settings)) {
    std::ranges::copy_if(screens(), std::back_inserter(possible),
                         [](const Screen& screen) { return is_embedded(screen.work); });
    return possible;
  }
  const TextModel model = load_model(settings);
  const int32_t mask = model.tokenizer().mask_id();
  for (Screen screen : screens()) {
    const std::optional<Head> head = head_for(screen.work);
    if (head && !model.can(*head)) continue;
    for (std::vector<std::string>& words : screen.commands) {
      // Which head shows something is known of the embedded model alone.
      if (words[0] == "attend") {
        words = {words.front(), words.back()};
        screen.about = "A row says how much a token looks at each other one, by the mean of a layer's heads.";
      }
      if (const size_t at = words.back().find(kMask); at != std::string::npos && mask >= 0)
        words.back().replace(at, kMask.size(), model.tokenizer().token(mask));
      if (settings.model) words.insert(words.begin() + 1, {"--model", *settings.model});
    }
    possible.push_back(std::move(screen));
  }
  return possible;
}

class Show {
 public:
  Show(const Settings& settings, size_t count)
      : settings_(settings),
        style_(Style::for_output()),
        count_(count),
        waits_(is_terminal(0) && is_terminal(1)) {}

  // False: somebody has seen enough.
  bool title(std::string_view text) {
    if (number_ > 0 && !goes_on()) return false;
    ++number_;
    print("{}{} {}\n", number_ > 1 ? "\n" : "", style_.dim(fmt::format("{}/{}", number_, count_)),
          style_.bold(text));
    return true;
  }
  bool run(const Screen& screen) {
    if (!title(screen.title)) return false;
    print(wrap(screen.about, std::min(output_width(), kMostWidth)));
    for (const std::vector<std::string>& command : screen.commands) {
      print("\n{}\n", style_.accent(line_of(command)));
      Invocation invocation = parse(command);
      invocation.settings.threads = settings_.threads, invocation.settings.precision = settings_.precision;
      invocation.settings.quiet = true;
      invocation.command->run(invocation.settings);
    }
    return true;
  }

 private:
  bool goes_on() const {
    if (!waits_) return true;
    print("\n{}", style_.dim("Enter goes on; q and Enter end"));
    flush_output();
    const int first = std::getchar();
    for (int c = first; c != '\n' && c != EOF;) c = std::getchar();
    if (first == EOF) print("\n");  // Ctrl-D ends it, too
    return first != 'q' && first != 'Q' && first != EOF;
  }

  const Settings& settings_;
  Style style_;
  size_t count_, number_ = 0;
  bool waits_;
};

}  // namespace

int demo_command(const Settings& settings) {
  const AttentionSteps steps = explain_you_found_me();
  if (settings.json) return print_json(steps, {.index = 0, .text = "You found me"}), 0;
  const Style style = Style::for_output();
  const std::vector<Screen> possible = screens_for(settings);
  Show show(settings, possible.size() + 1);
  for (const Screen& screen : possible)
    if (!show.run(screen)) return 0;
  if (!show.title("\"You found me\", step by step")) return 0;
  print(steps_text(steps, {.query = 1, .brief = true}, style, std::min(output_width(), kMostWidth)));
  print("\nWhere each number comes from: {}\n", style.accent("bertie explain"));
  print(wrap(fmt::format("Your turn: type one of the commands above with a text of your own, or {}",
                         style.accent("bertie help")),
             std::min(output_width(), kMostWidth)));
  return 0;
}

}  // namespace bertie::cli
