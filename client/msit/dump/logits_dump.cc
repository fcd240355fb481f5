// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/logits_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "client/foreign/trees/json/numbers.h"
#include "client/msit/command/launch.h"
#include "client/msit/table/csv_table.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr std::string_view kKeyLanguages[] = {"CPP", "Go", "Java", "JavaScript",
                                              "Python"};
constexpr std::string_view kHumanEval = "HumanEval";

using Numbers = std::vector<int64_t>;

absl::Status WrongKey(std::string_view key) {
  return MakeStatus(
      absl::StatusCode::kInvalidArgument,
      "the key \"{}\" does not match the first one: keys must all be numbers, "
      "HumanEval/N, or CPP/N, Go/N, Java/N, JavaScript/N or Python/N",
      key);
}

absl::StatusOr<int64_t> CaseNumber(std::string_view key,
                                   std::string_view digits) {
  const auto number = trees::ParseNumber(digits);
  if (!number.has_value()) return WrongKey(key);
  return *number;
}

// Returns the index of a language in kKeyLanguages.
std::optional<size_t> LanguageOf(std::string_view prefix) {
  const auto found =
      std::find(std::begin(kKeyLanguages), std::end(kKeyLanguages), prefix);
  if (found == std::end(kKeyLanguages)) return std::nullopt;
  return static_cast<size_t>(found - std::begin(kKeyLanguages));
}

std::string ListText(const Numbers& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

absl::StatusOr<std::string> ListOf(const std::vector<std::string>& keys) {
  const auto prefix_of = [](std::string_view key) {
    return key.substr(0, std::min(key.find('/'), key.size()));
  };
  const std::string_view first = keys.front();
  const bool has_prefix = first.find('/') != std::string_view::npos;
  const bool has_language = has_prefix && LanguageOf(prefix_of(first));
  if (has_prefix && !has_language && prefix_of(first) != kHumanEval) {
    return WrongKey(first);
  }
  std::array<Numbers, std::size(kKeyLanguages)> by_language;
  Numbers plain;
  for (const std::string& key : keys) {
    const std::string_view prefix = prefix_of(key);
    const std::string_view rest =
        has_prefix && prefix.size() < key.size()
            ? std::string_view(key).substr(prefix.size() + 1)
            : std::string_view(key);
    MSITD_ASSIGN_OR_RETURN(const int64_t number,
                           CaseNumber(key, rest.substr(0, rest.find('/'))));
    if (!has_language) {
      if (has_prefix && prefix != kHumanEval) return WrongKey(key);
      plain.push_back(number);
      continue;
    }
    const std::optional<size_t> language = LanguageOf(prefix);
    if (!language.has_value()) return WrongKey(key);
    by_language[*language].push_back(number);
  }
  if (!has_language) return ListText(plain);
  std::vector<std::string> lists;
  for (const Numbers& numbers : by_language) lists.push_back(ListText(numbers));
  return fmt::format("[{}]", fmt::join(lists, ", "));
}

}  // namespace

absl::StatusOr<std::string> BadCaseList(const std::string& csv) {
  if (!csv.ends_with(".csv")) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: its name does not end with .csv", csv);
  }
  MSITD_ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(csv));
  const auto column =
      std::find(table.header.begin(), table.header.end(), "key");
  if (column == table.header.end()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: it has no column key", csv);
  }
  std::vector<std::string> keys;
  for (const std::vector<std::string>& row : table.rows) {
    keys.push_back(row[static_cast<size_t>(column - table.header.begin())]);
  }
  if (keys.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: it has no bad case", csv);
  }
  auto list = ListOf(keys);
  if (!list.ok()) return Annotate(list.status(), csv);
  return list;
}

absl::StatusOr<int> DumpLogits(const LogitsDumpOptions& options, Logger& log) {
  log.Warning("Please ensure that your execution command is secure.");
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> words,
                         SplitCommand(options.command));
  if (words.front() != "torchrun" && words.front() != "modeltest") {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument,
        "--exec: the command must start with torchrun or modeltest, not {}",
        words.front());
  }
  MSITD_ASSIGN_OR_RETURN(const std::string cases,
                         BadCaseList(options.bad_cases));
  const ask::Environment environment = {
      {"BAD_CASE_LOGITS_DUMP", "True"},
      {"LOGITS_DUMP_TOKEN_MAX_LENGTH", options.tokens},
      {"BAD_CASE_LIST", cases}};
  log.Info(fmt::format("Execute command: {}", fmt::join(words, " ")));
  MSITD_ASSIGN_OR_RETURN(const int exit_code,
                         ask::RunCommand(words, environment));
  if (exit_code != 0) {
    log.Error(fmt::format("The command exited with {}", exit_code));
    return exit_code;
  }
  log.Info(
      "'Logits Dump' has successfully finished, the logits is stored at "
      "'{output_dir}/data/{DEVICE_TYPE}/precision_test/{dataset}/{data_type}/"
      "{model_name}/logits/'");
  return exit_code;
}

}  // namespace msitd::msit_command
