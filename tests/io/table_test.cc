// Rows out of tables: how they are written is recognized, bad rows say why and the others are read.
#include "io/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/packed.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

using test::expect_error;
using test::TempFolder;
using Fields = std::vector<std::string>;

TableHints named(std::vector<std::string> names) {
  return {.header = {}, .is_column_name = [names](std::string_view name) {
            return std::ranges::find(names, name) != names.end();
          }};
}

struct All {
  TableFormat format;
  Fields columns;
  std::vector<Fields> rows = {};  // good ones
  std::vector<size_t> lines = {};
  std::vector<std::string> problems = {};  // "7: why"
};

All read(const std::string& path, const TableHints& hints = named({"text", "label"})) {
  TableReader reader(path, hints);
  All all{.format = reader.format(), .columns = reader.columns()};
  for (TableRow row; reader.next(row);) {
    if (row.problem) {
      all.problems.push_back(std::to_string(row.line) + ": " + row.problem->what());
    } else {
      if (reader.format().json()) row.fields = {row.object.dump()};
      all.rows.push_back(row.fields);
      all.lines.push_back(row.line);
    }
  }
  return all;
}
All read_as(const std::string& name, std::string_view text,
            const TableHints& hints = named({"text", "label"})) {
  const TempFolder folder;
  return read(folder.write(name, text).string(), hints);
}

TEST(Csv, FieldsInQuotesHoldCommasLineEndsAndQuotes) {
  const All all =
      read_as("a.csv",
              "text,label\r\n\"a, b\",1\r\n\"two\r\nlines\",\"2\"\r\n\"she said \"\"no\"\"\",3\r\n"
              "\"\",4\r\nhalf \"quoted\",5\r\n");
  EXPECT_EQ(all.columns, (Fields{"text", "label"}));
  EXPECT_EQ(all.rows, (std::vector<Fields>{{"a, b", "1"},
                                           {"two\r\nlines", "2"},
                                           {"she said \"no\"", "3"},
                                           {"", "4"},
                                           {"half \"quoted\"", "5"}}));
  EXPECT_EQ(all.lines, (std::vector<size_t>{2, 3, 5, 6, 7}));
  EXPECT_TRUE(all.problems.empty());
}

TEST(Csv, TheLastLineMayDoWithoutItsEndAndEmptyLinesAreNoRows) {
  for (const char* text :
       {"text,label\na,1\nb,2", "\n\ntext,label\n\na,1\n\r\n\nb,2\n\n", "text,label\ra\n"}) {
    const All all = read_as("a.csv", text);
    if (std::string_view(text).find('\r') == 10) {
      EXPECT_EQ(all.columns, (Fields{"text", "label\ra"})) << "a lone \\r is a character";
      continue;
    }
    EXPECT_EQ(all.rows, (std::vector<Fields>{{"a", "1"}, {"b", "2"}})) << text;
  }
  EXPECT_EQ(read_as("a.csv", "text,label\n\"a\",\"1\"").rows, (std::vector<Fields>{{"a", "1"}}));
  EXPECT_EQ(read_as("a.csv", "text,label\n\"a\",\"1\"\r").rows, (std::vector<Fields>{{"a", "1"}}));
  EXPECT_EQ(read_as("a.csv", "text,label\na,").rows, (std::vector<Fields>{{"a", ""}}));
}

TEST(Csv, AByteOrderMarkIsNoPartOfTheFirstName) {
  EXPECT_EQ(read_as("a.csv", "\xEF\xBB\xBFtext,label\na,1\n").columns, (Fields{"text", "label"}));
}

TEST(Csv, PackedFilesAreReadAsTheyAre) {
  const TempFolder folder;
  const std::string text = "text,label\na,1\n\"b\n\",2\n";
  const std::vector<Fields> rows{{"a", "1"}, {"b\n", "2"}};
  EXPECT_EQ(read(folder.write("a.csv.gz", test::gzip(text)).string()).rows, rows);
  EXPECT_EQ(read(folder.write("a.csv.xz", test::xz(text)).string()).rows, rows);
  EXPECT_EQ(read(folder.write("a.csv.zst", test::zstd(text)).string()).rows, rows);
}

TEST(Csv, ABadRowIsToldByItsLineAndTheNextOnesAreRead) {
  const All all =
      read_as("a.csv", "text,label\na,1\nb\n\"c\n\",2,3\n\"bad\" quote,4\nd,4\n\"never closed,5\ne,5\nf,6\n");
  EXPECT_EQ(all.rows, (std::vector<Fields>{{"a", "1"}, {"d", "4"}, {"e", "5"}, {"f", "6"}}));
  ASSERT_EQ(all.problems.size(), 4u);
  EXPECT_EQ(all.problems[0], "3: 1 field where the header has 2");
  EXPECT_EQ(all.problems[1], "4: 3 fields where the header has 2");
  EXPECT_EQ(all.problems[2].substr(0, 2), "6:");
  EXPECT_EQ(all.problems[3], "8: a quote is not closed");
}

TEST(Csv, AQuoteThatClosesInALaterRowCostsThatRowAlone) {
  const All all = read_as("a.csv", "text,label\n\"open,1\nb,2\n\"fine\",3\nc,4\n");
  EXPECT_EQ(all.problems.size(), 1u);
  EXPECT_EQ(all.problems[0].substr(0, 2), "2:");
  EXPECT_EQ(all.rows, (std::vector<Fields>{{"b", "2"}, {"fine", "3"}, {"c", "4"}}));
}

TEST(Csv, SemicolonsAndTabsAreFoundWhateverTheName) {
  const All semicolons = read_as("a.csv", "text;label\n\"a; b, c\";1,5\n");
  EXPECT_EQ(semicolons.format.delimiter, ';');
  EXPECT_EQ(semicolons.rows, (std::vector<Fields>{{"a; b, c", "1,5"}}));
  EXPECT_EQ(describe(semicolons.format), "CSV with semicolons");
  const All tabs = read_as("a.csv", "text\tlabel\na, b\t1\n");
  EXPECT_EQ(tabs.rows, (std::vector<Fields>{{"a, b", "1"}}));
  const All commas = read_as("a.txt", "text,label\n\"a\tb\",1\n");
  EXPECT_EQ(commas.rows, (std::vector<Fields>{{"a\tb", "1"}}));
  EXPECT_EQ(read_as("a.csv", "text\n\"a\nb\"\nc\n").rows, (std::vector<Fields>{{"a\nb"}, {"c"}}));
}

TEST(Tsv, WithoutQuotesTheyAreCharacters) {
  // As in MRPC: a quote at the start of a field, never closed, or closed in the middle.
  const All all = read_as(
      "a.tsv", "label\ttext\n1\t\" The pie business .\n0\tHe said \" no \" .\n1\t\"Yes,\" she said\n");
  EXPECT_FALSE(all.format.quotes);
  EXPECT_EQ(all.rows,
            (std::vector<Fields>{
                {"1", "\" The pie business ."}, {"0", "He said \" no \" ."}, {"1", "\"Yes,\" she said"}}));
  EXPECT_EQ(describe(all.format), "TSV without quotes");
  // Quotes that could be either stay.
  EXPECT_EQ(read_as("a.tsv", "label\ttext\n1\t\"Fish and chips\"\n").rows,
            (std::vector<Fields>{{"1", "\"Fish and chips\""}}));
}

TEST(Tsv, WithQuotesTheyAreTaken) {
  for (const char* text : {"text\tlabel\n\"a\tb\"\t1\nc\t2\n", "text\tlabel\n\"a\nb\"\t1\nc\t2\n"}) {
    const All all = read_as("a.tsv", text);
    EXPECT_TRUE(all.format.quotes) << text;
    EXPECT_EQ(all.rows.size(), 2u);
    EXPECT_EQ(all.rows[0][0].size(), 3u) << text;
  }
  EXPECT_EQ(read_as("a.tsv", "text\tlabel\n\"say \"\"no\"\"\"\t1\n").rows,
            (std::vector<Fields>{{"say \"no\"", "1"}}));
  EXPECT_EQ(read_as("a.tsv", "\"text\"\t\"label\"\n\"a\"\t\"1\"\n").rows, (std::vector<Fields>{{"a", "1"}}));
  EXPECT_EQ(describe(read_as("a.tsv", "\"text\"\tlabel\n\"a\"\t1\n").format), "TSV with quotes");
}

TEST(Header, IsToldByNamesNumbersAndFieldsThatRecur) {
  EXPECT_TRUE(read_as("a.csv", "text,x\na,1\n").format.header) << "a usual name";
  EXPECT_FALSE(read_as("a.csv", "a,1\nb,2\n").format.header) << "a number";
  EXPECT_FALSE(read_as("a.csv", "good film,good\nbad film,bad\nfine,good\n").format.header) << "good recurs";
  EXPECT_TRUE(read_as("a.csv", "what,which\na,x\n").format.header);
  EXPECT_TRUE(read_as("a.csv", "text,label\na,x\ntext,label\n").format.header) << "files put together";
  EXPECT_TRUE(read_as("a.csv", ",text\n0,a\n1,b\n").format.header) << "pandas' index has no name";
  TableHints hints{.header = true};
  EXPECT_EQ(read_as("a.csv", "1,2\n3,4\n", hints).columns, (Fields{"1", "2"}));
  EXPECT_EQ(read_as("a.csv", "1,2\n3,4\n", hints).rows.size(), 1u);
  hints = {.header = {}, .header_expected = false};
  const All none = read_as("a.csv", "what,which\na,x\n", hints);
  EXPECT_FALSE(none.format.header);
  EXPECT_EQ(none.columns, (Fields{"1", "2"}));
  EXPECT_EQ(none.rows.size(), 2u);
}

TEST(JsonLines, AreObjectsAndBadOnesAreTold) {
  const All all =
      read_as("a.jsonl",
              "\xEF\xBB\xBF{\"text\": \"a\\nb\", \"label\": 1}\r\n\n  {\"other\": [1]}\n[1]\n{\"text\": \n"
              "{\"text\": \"\xff\"}\n{\"text\": 1, \"text\": 2}\n{\"text\": \"z\"}");
  EXPECT_EQ(all.format.kind, TableFormat::Kind::kJsonLines);
  EXPECT_EQ(all.columns, (Fields{"label", "text", "other"}));
  EXPECT_EQ(all.lines, (std::vector<size_t>{1, 3, 8}));
  ASSERT_EQ(all.problems.size(), 4u);
  EXPECT_EQ(all.problems[0], "4: this row is not a JSON object");
  EXPECT_EQ(all.problems[1].substr(0, 2), "5:");
  EXPECT_EQ(all.problems[2].substr(0, 2), "6:");
  EXPECT_NE(all.problems[3].find("7: this row: duplicate key"), std::string::npos) << all.problems[3];
  EXPECT_EQ(read_as("noname", "{\"text\": \"a\"}\n").rows.size(), 1u) << "recognized by what it holds";
  EXPECT_EQ(read_as("a.ndjson", "broken\n{\"text\": \"a\"}\n").rows.size(), 1u);
}

TEST(JsonArray, IsReadObjectByObject) {
  const All all =
      read_as("a.json", " [\n {\"text\": \"a ] } \\\" [\"},\n{\"text\": {\"b\": []}}\n, 7, \"x\" ] \n");
  EXPECT_EQ(all.format.kind, TableFormat::Kind::kJsonArray);
  EXPECT_EQ(all.lines, (std::vector<size_t>{2, 3}));
  EXPECT_EQ(all.problems.size(), 2u);
  EXPECT_TRUE(read_as("a.json", "[]").rows.empty());
  EXPECT_EQ(read_as("noname", "[{\"text\": 1}]").rows.size(), 1u);
  for (const char* broken :
       {"[{\"text\": 1}", "[{\"text\": 1},", "[{\"text\": 1} {\"text\": 2}]", "[{\"text\": ", "[", "[,]"}) {
    const All some = read_as("a.json", broken);
    EXPECT_EQ(some.problems.size(), 1u) << broken;
    EXPECT_TRUE(some.rows.empty()) << broken;
  }
}

TEST(Table, ThatIsHostileIsRefusedRowByRow) {
  const std::string huge(kMaxTableRow + 10, 'x');
  for (const std::string name : {"a.csv", "a.tsv", "a.jsonl"}) {
    const bool json = name == "a.jsonl";
    const std::string good = json ? "{\"text\": 1}\n" : name == "a.csv" ? "a,1\n" : "a\t1\n";
    const std::string head = json ? "" : name == "a.csv" ? "text,label\n" : "text\tlabel\n";
    const All all = read_as(name, head + good + huge + "\n" + good);
    EXPECT_EQ(all.rows.size(), 2u) << name;
    ASSERT_EQ(all.problems.size(), 1u) << name;
    EXPECT_NE(all.problems[0].find("longer than 16 MB"), std::string::npos) << all.problems[0];
    const All zero = read_as(name, head + good + std::string("x\0y\n", 4) + good);
    EXPECT_EQ(zero.rows.size(), 2u) << name;
    EXPECT_EQ(zero.problems.size(), 1u) << name;
  }
  const All open = read_as("a.csv", "text,label\n\"" + huge + "\na,1\n");
  EXPECT_EQ(open.rows, (std::vector<Fields>{{"a", "1"}}));
  EXPECT_EQ(open.problems.size(), 1u);
  const All deep = read_as(
      "a.jsonl", std::string(100'000, '[') + "\n{\"text\": " + std::string(1000, '[') + "\n{\"text\": 1}\n");
  EXPECT_EQ(deep.rows.size(), 1u);
  EXPECT_EQ(deep.problems.size(), 2u);
  const All wide = read_as("a.csv", "text,label\n" + std::string(100'000, ',') + "\na,1\n");
  EXPECT_EQ(wide.rows.size(), 1u);
  EXPECT_EQ(wide.problems.size(), 1u);
}

TEST(Table, ThatHasNothingHasNoRowsAndNoColumns) {
  for (const char* name : {"a.csv", "a.tsv", "a.jsonl", "a.json", "a"})
    for (const char* text : {"", "\n", "\r\n\r\n", "\xEF\xBB\xBF"}) {
      const All all = read_as(name, text);
      EXPECT_TRUE(all.rows.empty() && all.columns.empty() && all.problems.empty()) << name << text;
    }
}

TEST(Table, InUtf16IsRefusedWithWhatToTry) {
  const TempFolder folder;
  const std::string marked("\xFF\xFEt\0e\0x\0t\0,\0l\0", 14), plain("t\0e\0x\0t\0,\0l\0", 12);
  for (const std::string& text : {marked, plain})
    expect_error("is no text in UTF-8", [&] { read(folder.write("a.csv", text).string()); });
}

TEST(Table, WhoseFirstRowIsBadHasNoColumns) {
  const TempFolder folder;
  const std::string file = folder.write("a.csv", "\"text,label\na,1\n").string();
  expect_error("a.csv:1: the first row should name the columns", [&] { read(file, {.header = true}); });
}

TEST(Table, RowsAheadAreStillGiven) {
  const TempFolder folder;
  TableReader reader(folder.write("a.csv", "text,label\na,1\nb,2\nc,3\n").string());
  EXPECT_EQ(reader.ahead(2).size(), 2u);
  EXPECT_EQ(reader.ahead(1).size(), 2u);
  EXPECT_EQ(reader.ahead(9).size(), 3u);
  size_t rows = 0;
  for (TableRow row; reader.next(row); ++rows) EXPECT_EQ(row.line, rows + 2);
  EXPECT_EQ(rows, 3u);
}

TEST(Table, ManySmallReadsGiveTheSameAsOne) {
  // Rows that lie across every boundary of what is read at a time.
  std::string text = "text,label\n";
  std::vector<Fields> rows;
  for (size_t i = 0; i < 3000; ++i) {
    const std::string field(i % 251, i % 3 == 0 ? '"' : i % 3 == 1 ? '\n' : 'x');
    std::string quoted;
    for (char c : field) quoted.append(c == '"' ? 2 : 1, c);
    text += "\"" + quoted + "\"," + std::to_string(i) + "\r\n";
    rows.push_back({field, std::to_string(i)});
  }
  EXPECT_GT(text.size(), size_t{1} << 18);
  EXPECT_EQ(read_as("a.csv", text).rows, rows);
}

TEST(Extension, IsThatBeforeThePacking) {
  EXPECT_EQ(table_extension("a/b.CSV"), "csv");
  EXPECT_EQ(table_extension("b.tsv.gz"), "tsv");
  EXPECT_EQ(table_extension("b.gz"), "");
  EXPECT_EQ(table_extension("x.csv/b"), "");
  EXPECT_EQ(table_extension("-"), "");
}

}  // namespace
}  // namespace bertie::io
