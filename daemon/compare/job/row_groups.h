// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/bounds/bound_share.h"

namespace msitd::compare {

// Reduces rows of a comparison to groups, for SummarizeComparisonRows.
// Thread-compatible.
class RowGroups {
 public:
  using Group = v1::SummarizeComparisonRowsResponse::Group;

  // INVALID_ARGUMENT with FIELD_INVALID if the daemon has no such value, or if
  // a property is given twice. `comparison` is the one with the rows; its
  // bounds are used.
  static absl::StatusOr<RowGroups> Create(
      const v1::SummarizeComparisonRowsRequest& request,
      const v1::Comparison& comparison);

  // Must be called in the order of the rows.
  void Add(const v1::ComparisonRow& row);

  // The size of the groups as a message, approximately.
  size_t size_bytes() const { return size_bytes_; }

  // Appends the groups, in the order of their first rows.
  void MoveTo(v1::SummarizeComparisonRowsResponse& response);

 private:
  struct Entry {
    Group group;
    // The value of the worst row.
    std::optional<double> row_value;
  };

  explicit RowGroups(Bounds bounds) : bounds_(std::move(bounds)) {}

  std::optional<double> ValueOf(const v1::ComparisonRow& row) const;
  Entry& EntryOf(const v1::ComparisonRow& row);
  bool IsWorseRow(const v1::ComparisonRow& row, std::optional<double> value,
                  const Entry& entry) const;

  Bounds bounds_;
  bool by_op_ = false;
  bool by_rank_ = false;
  bool by_token_ = false;
  std::string metric_;  // Empty for the share of the bound.
  bool higher_is_better_ = false;
  // Positions in `entries_`, by the properties that distinguish groups.
  std::unordered_map<std::string, size_t> positions_;
  std::vector<Entry> entries_;
  size_t size_bytes_ = 0;
};

}  // namespace msitd::compare
