// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/report/table/cell.h"
#include "client/msit/compare/row_spool.h"

namespace msitd::msit_command {

// The position of each op in a graph.
using OpPlaces = std::unordered_map<std::string, size_t>;

// The report of one graph of one rank. Rows are added in any order, and are
// written in msit's order, by the time in the path of my side.
// Thread-compatible.
class GraphReport {
 public:
  // `is_compat`: omits rows that msit omits. The headings are msit's.
  static absl::StatusOr<GraphReport> Make(
      const std::vector<std::string>& headings, bool is_compat);

  // Sets the op of the next rows, by its name in the graph, and its file.
  void SetOp(int64_t token, std::string_view op, std::string_view file);

  // Adds a row, with a cell for each heading.
  absl::Status Add(const ask::Cells& cells);

  // Accepts the token of a row that the report omits, and its line without the
  // two columns of ids.
  using TakeOmitted = std::function<absl::Status(int64_t, std::string_view)>;

  // Writes `<stem>.csv` in `folder`. Returns its path. Rows are numbered from
  // `first_id` on in the order of msit: by token, then ops that are not in the
  // graph by their files, then the others in the order of the graph. `first_id`
  // becomes the next number. Rows that msit omits are passed to `omit`.
  absl::StatusOr<std::string> Save(const std::string& folder,
                                   const std::string& stem,
                                   const OpPlaces& places, int64_t& first_id,
                                   const TakeOmitted& omit);

 private:
  struct Op {
    std::string name;
    std::string file;
  };

  GraphReport(std::string header, bool is_compat, RowSpool spool)
      : header_(std::move(header)),
        is_compat_(is_compat),
        spool_(std::move(spool)) {}
  void NumberRows(const OpPlaces& places, int64_t& first_id);

  std::string header_;
  bool is_compat_;
  RowSpool spool_;
  std::vector<Op> ops_;
  std::unordered_map<std::string, uint32_t> op_numbers_;
  int64_t token_ = 0;
  uint32_t op_ = 0;
};

}  // namespace msitd::msit_command
