// Questions with their contexts and answers: SQuAD's JSON, or an object a line.
#include <fmt/format.h>

#include <utility>

#include "io/quote.h"
#include "train/data/columns.h"
#include "train/data/dataset_rows.h"
#include "train/data/squad.h"

namespace bertie {
namespace {

void read_json_questions(Dataset& data, const DatasetOptions& options, std::unique_ptr<io::TextWindow> window,
                         const std::string& path) {
  const WantedColumns wanted{.kind = TaskKind::kAnswer,
                             .text = options.text,
                             .text_pair = options.text_pair,
                             .label = options.label,
                             .label_wanted = options.labels_needed};
  io::TableReader reader(std::move(window), io::table_extension(path), table_hints(wanted));
  data.found = describe(reader.format());
  if (reader.columns().empty() && !reader.format().json()) return;
  if (!reader.format().json() && options.labels_needed)
    throw Error(fmt::format("{} is read as {}, which has no form for answers", data.file, data.found),
                "SQuAD's JSON, or JSON lines with \"question\", \"context\" and \"answers\"");
  DatasetRows rows(data, options);
  if (reader.columns().empty()) return rows.bad_all(reader);
  const FoundColumns columns = find_columns(reader, wanted);
  data.found += ", " + describe(reader, columns);
  size_t number = 0;
  for (io::TableRow row; reader.next(row);) try {
      ++number;
      if (row.problem) throw Error(*row.problem);
      SquadQuestion question{.id = std::to_string(number), .line = row.line};
      question.question = text_field(reader, row, columns.text);
      question.context = text_field(reader, row, *columns.text_pair);
      if (reader.format().json()) {
        if (const auto id = row.object.find("id"); id != row.object.end() && id->is_string())
          question.id = id->get<std::string>();
        const nlohmann::json* answers = columns.label ? &json_field(reader, row, *columns.label) : nullptr;
        const bool given = answers && !answers->is_null();
        if (given) question.answers = answers_in_json(*answers);
        if (!given && options.labels_needed) throw Error("there are no answers");
        data.labeled &= given;
        if (options.places_needed) check_answers(question);
      } else {
        data.labeled = false;
        rows.make_valid(row.line, {&question.question, &question.context});
      }
      data.questions.push_back(std::move(question));
    } catch (const Error& error) {
      rows.bad(row.line, error);
    }
}

}  // namespace

void read_questions(Dataset& data, const DatasetOptions& options, const std::string& path) {
  auto window = std::make_unique<io::TextWindow>(path);
  if (!looks_like_squad(window->fill(io::kTableSample))) {
    read_json_questions(data, options, std::move(window), path);
  } else {
    DatasetRows rows(data, options);
    data.found = "SQuAD's JSON";
    const SquadSummary summary = read_squad(
        window->fill(SIZE_MAX), data.file,
        !options.labels_needed  ? SquadAnswers::kOptional
        : options.places_needed ? SquadAnswers::kNeeded
                                : SquadAnswers::kTexts,
        [&](SquadQuestion& question, const std::optional<Error>& problem) {
          if (problem)
            rows.bad(0, Error(fmt::format("question {}: {}", io::quote(question.id), problem->what()),
                              problem->hint()));
          else
            data.questions.push_back(std::move(question));
        });
    data.labeled = summary.has_answers;
    if (!summary.version.empty()) data.found += fmt::format(", version {}", summary.version);
  }
  for (const SquadQuestion& question : data.questions)
    data.no_answers |= data.labeled && question.answers.empty();
}

}  // namespace bertie
