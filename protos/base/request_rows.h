// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msitd {

// Positions first to end - 1 of a dimension.
struct RowRange {
  int64_t first = 0;
  int64_t end = 0;

  int64_t size() const { return end - first; }

  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// Which part of a batch belongs to a request; the text of a request document
// (request.h). A batch has one dimension, the rows of all requests one after
// the other, or two: sequences and the positions in them.
struct RequestRows {
  RowRange rows;
  // The elements of the second dimension. Absent if the batch has one
  // dimension, or if all of them belong to the request.
  std::optional<RowRange> columns = {};
  // Position of the first element in the sequence of the request, without
  // padding.
  std::optional<int64_t> position = {};
  // Lengths of the dimensions of the batch.
  std::optional<int64_t> row_count = {};
  std::optional<int64_t> column_count = {};

  friend bool operator==(const RequestRows&, const RequestRows&) = default;
};

// Parses `ROWS[,COLUMNS][@POSITION][/N[,M]]`, in which ROWS and COLUMNS are
// `FIRST:END`. Returns nothing if the text has another form, or if its numbers
// contradict each other or exceed 2^40. The text is untrusted.
std::optional<RequestRows> ParseRequestRows(std::string_view text);

}  // namespace msitd
