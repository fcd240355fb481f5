// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// A stored row, parsed only as far as verdicts depend on it.
//
// Protobuf parses and serializes every byte of a row, which takes several times
// as long as judging the row. But most bytes are metrics, and names and
// descriptions of the tensors. A verdict does not change these, so this class
// splits a row into three parts:
//
// - Both sides are copied as bytes. Only the fields that verdicts depend on are
//   also parsed.
// - Metrics are RowMetrics. They are copied as bytes unless they change.
// - Protobuf parses and serializes all other fields.
//
// All other fields of a side are absent from `row()`.
//
// Thread-compatible. An object that is used for many rows reuses its memory.
class StoredRow {
 public:
  // Replaces the row by one in wire format. Returns false if the bytes are not
  // a row that protobuf can parse.
  bool Parse(std::string_view bytes);

  // The row without its metrics. The sides have only dtype, shape, min, max,
  // nan_count, infinity_count, l2_norm, hash and kind, and must not be changed.
  // All other fields may be changed.
  v1::ComparisonRow& row() { return row_; }
  const v1::ComparisonRow& row() const { return row_; }

  // Metrics with unknown names are left out.
  const RowMetrics& metrics() const { return metrics_; }
  // Also true if all names are unknown.
  bool has_metrics() const { return !metric_bytes_.empty(); }
  // Replaces all metrics, including those with unknown names.
  void SetMetrics(const RowMetrics& metrics);

  // Returns the complete row in wire format.
  std::string Serialize();

 private:
  void Clear();

  v1::ComparisonRow row_;
  RowMetrics metrics_;
  bool has_unknown_metrics_ = false;
  // The fields of the row as bytes: metrics, sides, and all others.
  std::string metric_bytes_;
  std::string side_bytes_;
  std::string other_bytes_;
};

}  // namespace msitd::compare
