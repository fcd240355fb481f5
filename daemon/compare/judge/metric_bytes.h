// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/compare/judge/row_metrics.h"

// The field `metrics` of a v1.ComparisonRow in wire format.
//
// Metrics are most of the fields of a row. Protobuf allocates a message and a
// name for each of them, which takes longer than judging the row. Therefore,
// these functions convert RowMetrics directly.
namespace msitd::compare {

// Returns the defined metrics as fields of a row, in the order of MetricNames.
std::string EncodeMetrics(const RowMetrics& metrics);

// Reads metrics of one row, a v1.MetricValue at a time. Thread-compatible.
class MetricDecoder {
 public:
  // `out` receives the values and must outlive this object.
  explicit MetricDecoder(RowMetrics& out) : out_(out) {}

  // Adds the metric in `message`. Metrics with unknown names are ignored.
  // Returns false if this is not a message.
  bool Add(std::string_view message);

  // Returns whether a metric was ignored.
  bool has_unknown() const { return has_unknown_; }

 private:
  // Adds a metric whose fields are not the name and the value in this order.
  bool AddOther(std::string_view message);

  RowMetrics& out_;
  // Rows have their metrics in the order of the names, so the next name is
  // most likely this one.
  size_t next_ = 0;
  bool has_unknown_ = false;
};

}  // namespace msitd::compare
