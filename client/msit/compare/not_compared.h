// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/msit/command/logger.h"
#include "client/msit/compare/row_spool.h"

namespace msitd::msit_command {

// The tensors of one rank that are in no row of its reports. A summary such as
// "3 tensors unmatched" does not lead to the op that was not dumped in one of a
// thousand tokens. So the log names the ops, with their tokens, and a table
// lists the tensors. It is a file of its own, because additional rows would
// change the numbers in the column data_id, which match those of msit.
// Thread-compatible.
class NotCompared {
 public:
  // Tensors that the table lists. More are only counted.
  static constexpr size_t kRowsMax = 100000;

  struct Tensor {
    // Nothing: it is not known, for a file that cannot be read.
    std::optional<int64_t> token = {};
    bool is_golden = false;
    std::string op;
    int64_t call = 0;
    // The path in the report.
    std::string path;
    std::string reason;
  };

  // `headings` are those of the report.
  static absl::StatusOr<NotCompared> Make(
      const std::vector<std::string>& headings);

  // Adds a tensor without a counterpart.
  absl::Status Add(const Tensor& tensor);

  // Adds a tensor or a file to the table that the log reports elsewhere.
  absl::Status AddRow(const Tensor& tensor);

  // Adds a row that the report omits: its cells from the third one on, with the
  // end of the line.
  absl::Status AddOmitted(int64_t token, std::string_view line);

  size_t omitted_count() const { return omitted_count_; }

  // Logs the ops, and writes `<stem>.csv` in `folder` if there are rows.
  absl::Status Save(const std::string& folder, const std::string& stem,
                    Logger& log);

 private:
  // By side, op, call and reason.
  using OpKey = std::tuple<bool, std::string, int64_t, std::string>;
  struct OpCount {
    size_t tensor_count = 0;
    // The first ones that were added, and whether there are more.
    std::set<int64_t> tokens;
    bool has_more_tokens = false;
  };

  NotCompared(std::vector<std::string> headings, RowSpool rows)
      : headings_(std::move(headings)), rows_(std::move(rows)) {}
  absl::Status AddLine(int64_t token, std::string_view line);
  void NameOps(Logger& log) const;

  std::vector<std::string> headings_;
  RowSpool rows_;
  size_t row_count_ = 0;
  size_t omitted_count_ = 0;
  std::map<OpKey, OpCount> ops_;
  // Tensors of ops beyond those that are distinguished.
  size_t other_count_ = 0;
};

}  // namespace msitd::msit_command
