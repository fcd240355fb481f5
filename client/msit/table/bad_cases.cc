// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/bad_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "client/ask/text/text.h"
#include "client/msit/table/column.h"
#include "client/msit/table/csv_table.h"
#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kFolder[] = "msit_bad_case/analyzer";

// Limits the rows that result from equal keys on both sides.
constexpr size_t kJoinedRowsMax = size_t{1} << 24;

// Rows without a counterpart that the warning lists.
constexpr size_t kShownUnmatched = 5;

constexpr size_t kNoRow = std::numeric_limits<size_t>::max();

// One of the two files.
struct Side {
  std::map<std::string, Column> columns;
  std::vector<size_t> rows;  // The rows in which no column lacks a value.

  bool Has(const std::string& name) const { return columns.contains(name); }
};

absl::StatusOr<Side> ReadSide(const std::string& path, Logger& log) {
  log.Info(fmt::format("Checking if path {} is valid...", Quoted(path)));
  if (!path.ends_with(".csv")) {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument,
        "Invalid csv path, only path with suffix '.csv' is allowed: {}",
        Quoted(path));
  }
  MSITD_ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(path));
  Side side;
  for (size_t i = 0; i < table.header.size(); ++i) {
    std::vector<std::string> cells;
    cells.reserve(table.rows.size());
    for (const std::vector<std::string>& row : table.rows) {
      cells.push_back(row[i]);
    }
    const std::string& name = table.header[i];
    if (!side.columns.emplace(name == "pass" ? "passed" : name, cells).second) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{}: it has both pass and passed", path);
    }
  }
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const bool is_whole = std::none_of(
        side.columns.begin(), side.columns.end(),
        [row](const auto& column) { return column.second.is_missing(row); });
    if (is_whole) side.rows.push_back(row);
  }
  return side;
}

absl::Status CheckColumns(const Side& side, const std::string& path,
                          const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!side.Has(name)) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{}: Unmatched csv columns, expected to have {}", path,
                        fmt::join(names, ", "));
    }
  }
  return absl::OkStatus();
}

// The differences between the two commands.
struct Task {
  std::vector<std::string> keys;
  std::vector<std::string> others;  // `passed` is the last one.
  std::string file_prefix;
  // True if `passed` is always a text, and `correct` means `true`.
  bool folds_passed = false;
  std::string unmatched_words;  // Before the colon of the warning.
};

struct JoinedRow {
  size_t golden = 0;
  size_t test = kNoRow;
};

class Analysis {
 public:
  Analysis(const Side& golden, const Side& test, const Task& task, Logger& log)
      : golden_(golden), test_(test), task_(task), log_(log) {}

  absl::Status Run() {
    log_.Info("Analyzing...");
    MSITD_RETURN_IF_ERROR(Join());
    MSITD_RETURN_IF_ERROR(Save());
    WarnOfUnmatched();
    return absl::OkStatus();
  }

 private:
  std::string KeyOf(const Side& side, size_t row) const {
    std::string key;
    for (const std::string& name : task_.keys) {
      const std::string part = side.columns.at(name).Key(row);
      key += fmt::format("{}:{}", part.size(), part);
    }
    return key;
  }

  absl::Status Join() {
    std::unordered_map<std::string, std::vector<size_t>> partners;
    for (const size_t row : test_.rows) {
      partners[KeyOf(test_, row)].push_back(row);
    }
    for (const size_t row : golden_.rows) {
      const auto found = partners.find(KeyOf(golden_, row));
      const size_t count = found == partners.end() ? 1 : found->second.size();
      if (count > kJoinedRowsMax - joined_.size()) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "more than {} rows: too many of them have equal {}",
                          kJoinedRowsMax, fmt::join(task_.keys, " and "));
      }
      if (found == partners.end()) {
        unmatched_.push_back(joined_.size());
        joined_.push_back({row, kNoRow});
        continue;
      }
      for (const size_t partner : found->second) {
        joined_.push_back({row, partner});
      }
    }
    return absl::OkStatus();
  }

  std::string Folded(const Side& side, size_t row) const {
    const std::string text = absl::AsciiStrToLower(
        side.columns.at("passed").Shown(row, /*with_missing=*/false));
    if (text == "correct") return "true";
    return text == "wrong" ? "false" : text;
  }

  bool Differs(const JoinedRow& row) const {
    if (row.test == kNoRow) return false;
    if (task_.folds_passed) {
      return Folded(golden_, row.golden) != Folded(test_, row.test);
    }
    return golden_.columns.at("passed").Key(row.golden) !=
           test_.columns.at("passed").Key(row.test);
  }

  std::string Cell(const Side& side, const std::string& name, size_t row,
                   bool with_missing) const {
    if (task_.folds_passed && name == "passed") return Folded(side, row);
    return side.columns.at(name).Shown(row, with_missing);
  }

  absl::Status Save() {
    std::vector<std::string> header = task_.keys;
    for (const std::string& name : task_.others) {
      header.push_back(name + "_golden");
      header.push_back(name + "_test");
    }
    std::string text = ask::CsvLine(header, /*guards_formulas=*/false);
    const size_t header_bytes = text.size();
    for (const JoinedRow& row : joined_) {
      if (!Differs(row)) continue;
      std::vector<std::string> cells;
      for (const std::string& name : task_.keys) {
        cells.push_back(Cell(golden_, name, row.golden, false));
      }
      for (const std::string& name : task_.others) {
        cells.push_back(Cell(golden_, name, row.golden, false));
        cells.push_back(Cell(test_, name, row.test, !unmatched_.empty()));
      }
      text += ask::CsvLine(cells, /*guards_formulas=*/false);
    }
    if (text.size() == header_bytes) {
      log_.Warning(
          "'Analyzer' detected that there is no difference between the given "
          "golden result and test result. Hence no result is saved");
      return absl::OkStatus();
    }
    MSITD_ASSIGN_OR_RETURN(
        const std::string path,
        WriteCsvFile(kFolder, task_.file_prefix + ChinaTimeStamp(), text));
    log_.Info(
        fmt::format("'Analyzer' has successfully finished the analysis, the "
                    "result is stored at {}",
                    Quoted(path)));
    return absl::OkStatus();
  }

  // Returns the beginning of a column as pandas prints it: the numbers of the
  // rows, and the right-aligned values.
  std::string BeginningOfUnmatched() const {
    std::vector<std::pair<std::string, std::string>> lines;
    size_t index_width = 0;
    size_t value_width = 0;
    for (const size_t row : unmatched_) {
      if (lines.size() == kShownUnmatched) break;
      lines.emplace_back(fmt::format("{}", row),
                         ask::Printable(Cell(golden_, task_.keys.front(),
                                             joined_[row].golden, false)));
      index_width = std::max(index_width, lines.back().first.size());
      value_width =
          std::max(value_width, ask::DisplayWidth(lines.back().second));
    }
    std::string out;
    for (const auto& [index, value] : lines) {
      if (!out.empty()) out += '\n';
      const size_t gap = value_width - ask::DisplayWidth(value) + 4;
      out += fmt::format("{:<{}}{:{}}{}", index, index_width, "", gap, value);
    }
    return out;
  }

  void WarnOfUnmatched() {
    if (unmatched_.empty()) return;
    log_.Warning(fmt::format(
        "There are '{}' quer(ies) not matched, {}:\n\t '{}'", unmatched_.size(),
        task_.unmatched_words, BeginningOfUnmatched()));
  }

  const Side& golden_;
  const Side& test_;
  const Task& task_;
  Logger& log_;
  std::vector<JoinedRow> joined_;
  std::vector<size_t> unmatched_;  // Positions in `joined_`.
};

}  // namespace

absl::Status AnalyzeQueries(const std::string& golden, const std::string& test,
                            Logger& log) {
  const Task task = {
      .keys = {"queries"},
      .others = {"input_token_ids", "output_token_ids", "passed"},
      .file_prefix = "",
      .folds_passed = false,
      .unmatched_words =
          "below is a partial display of these unmatched queries"};
  std::vector<std::string> needed = task.keys;
  needed.insert(needed.end(), task.others.begin(), task.others.end());
  MSITD_ASSIGN_OR_RETURN(const Side first, ReadSide(golden, log));
  MSITD_ASSIGN_OR_RETURN(const Side second, ReadSide(test, log));
  log.Info("Checking if the header of csv is valid...");
  MSITD_RETURN_IF_ERROR(CheckColumns(first, golden, needed));
  log.Info("Checking if the header of csv is valid...");
  MSITD_RETURN_IF_ERROR(CheckColumns(second, test, needed));
  return Analysis(first, second, task, log).Run();
}

absl::Status AnalyzeKeys(const std::string& golden, const std::string& test,
                         Logger& log) {
  log.Info(
      fmt::format("'Analyzer' received two csv paths, the golden one is:\n\t{}"
                  "\nand the test one is:\n\t{}",
                  Quoted(golden), Quoted(test)));
  MSITD_ASSIGN_OR_RETURN(const Side first, ReadSide(golden, log));
  MSITD_ASSIGN_OR_RETURN(const Side second, ReadSide(test, log));
  Task task = {.keys = {"key"},
               .others = {},
               .file_prefix = "msit_bad_case_result_",
               .folds_passed = true,
               .unmatched_words =
                   "below is a partial display of these "
                   "unmatched query's key"};
  if (first.Has("queries")) task.keys.emplace_back("queries");
  if (first.Has("input_token_ids") && first.Has("output_token_ids")) {
    task.others = {"input_token_ids", "output_token_ids"};
  }
  task.others.emplace_back("passed");
  std::vector<std::string> needed = task.keys;
  needed.insert(needed.end(), task.others.begin(), task.others.end());
  log.Info("Checking if the header of csv is valid...");
  MSITD_RETURN_IF_ERROR(CheckColumns(first, golden, needed));
  log.Info("Checking if the header of csv is valid...");
  MSITD_RETURN_IF_ERROR(CheckColumns(second, test, needed));
  return Analysis(first, second, task, log).Run();
}

}  // namespace msitd::msit_command
