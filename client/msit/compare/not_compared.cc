// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/not_compared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "client/ask/text/text.h"
#include "client/msit/compare/msit_columns.h"
#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// Sorted before all tokens.
constexpr int64_t kNoToken = -1;

// Ops that are distinguished, and those that the log names.
constexpr size_t kOpsMax = 10000;
constexpr size_t kNamedOpsMax = 20;
// Tokens that the log lists for each op.
constexpr size_t kNamedTokensMax = 8;

std::string ListTokens(const std::set<int64_t>& tokens, bool has_more) {
  return fmt::format("token{} {}{}", tokens.size() > 1 ? "s" : "",
                     fmt::join(tokens, ", "), has_more ? ", ..." : "");
}

}  // namespace

absl::StatusOr<NotCompared> NotCompared::Make(
    const std::vector<std::string>& headings) {
  MSITD_ASSIGN_OR_RETURN(RowSpool rows, RowSpool::Make());
  return NotCompared(headings, std::move(rows));
}

absl::Status NotCompared::AddLine(int64_t token, std::string_view line) {
  if (++row_count_ > kRowsMax) return absl::OkStatus();
  RowSpool::Row row;
  row.token = token;
  return rows_.Add(std::move(row), line);
}

absl::Status NotCompared::AddRow(const Tensor& tensor) {
  std::vector<std::string> fields(headings_.size());
  fields[tensor.is_golden ? kGoldenPath : kMyPath] = tensor.path;
  fields[kReason] = tensor.reason;
  fields.erase(fields.begin(), fields.begin() + kIdColumns);
  return AddLine(tensor.token.value_or(kNoToken),
                 ask::CsvLine(fields, /*guards_formulas=*/false));
}

absl::Status NotCompared::Add(const Tensor& tensor) {
  OpKey key(tensor.is_golden, tensor.op, tensor.call, tensor.reason);
  auto found = ops_.find(key);
  if (found == ops_.end() && ops_.size() < kOpsMax) {
    found = ops_.emplace(std::move(key), OpCount()).first;
  }
  if (found == ops_.end()) {
    ++other_count_;
  } else {
    OpCount& count = found->second;
    const int64_t token = tensor.token.value_or(kNoToken);
    ++count.tensor_count;
    if (count.tokens.size() < kNamedTokensMax) {
      count.tokens.insert(token);
    } else if (!count.tokens.contains(token)) {
      count.has_more_tokens = true;
    }
  }
  return AddRow(tensor);
}

absl::Status NotCompared::AddOmitted(int64_t token, std::string_view line) {
  ++omitted_count_;
  return AddLine(token, line);
}

void NotCompared::NameOps(Logger& log) const {
  size_t named = 0;
  size_t rest = other_count_;
  for (const auto& [key, count] : ops_) {
    const auto& [is_golden, op, call, reason] = key;
    if (named++ >= kNamedOpsMax) {
      rest += count.tensor_count;
      continue;
    }
    log.Warning(fmt::format(
        "{} {} tensors of {}{} are not compared in {}: {}", count.tensor_count,
        is_golden ? "golden" : "my", op,
        call > 0 ? fmt::format(", dump {} in a token,", call + 1) : "",
        ListTokens(count.tokens, count.has_more_tokens), reason));
  }
  if (rest == 0) return;
  const size_t other_ops = named - std::min(named, kNamedOpsMax);
  log.Warning(fmt::format("{} tensors of {}{} other ops are not compared", rest,
                          other_count_ > 0 ? "more than " : "", other_ops));
}

absl::Status NotCompared::Save(const std::string& folder,
                               const std::string& stem, Logger& log) {
  NameOps(log);
  std::vector<RowSpool::Row>& rows = rows_.rows();
  if (rows.empty()) return absl::OkStatus();
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.token < b.token;
  });
  MSITD_ASSIGN_OR_RETURN(
      const std::string path,
      WriteReportFile(
          folder, stem, ".csv", [&](const ByteTake& take) -> absl::Status {
            MSITD_RETURN_IF_ERROR(
                take(ask::CsvLine(headings_, /*guards_formulas=*/false)));
            std::string line;
            for (const RowSpool::Row& row : rows) {
              MSITD_RETURN_IF_ERROR(rows_.Read(row, line));
              MSITD_RETURN_IF_ERROR(
                  take(row.token == kNoToken
                           ? fmt::format(",,{}", line)
                           : fmt::format("{},,{}", row.token, line)));
            }
            return absl::OkStatus();
          }));
  log.Warning(fmt::format(
      "Saved what is not compared: {}{}", path,
      row_count_ > rows.size()
          ? fmt::format(" (the first {} of {} rows)", rows.size(), row_count_)
          : ""));
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
