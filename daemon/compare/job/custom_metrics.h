// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/face/comparisons.h"

// Metrics that others add to the rows of a comparison that has ended.
namespace msitd::compare {

// Metrics of a row, and names of a comparison. One more is refused.
inline constexpr int kCustomMetricsMax = 16;
inline constexpr size_t kCustomMetricNameBytesMax = 64;
inline constexpr size_t kCustomMetricTextBytesMax = 1024;
// Rows of one request.
inline constexpr int kCustomMetricRowsMax = 1000;

using RowMetricsList =
    google::protobuf::RepeatedPtrField<v1::AddRowMetricsRequest::RowMetrics>;

// Checks all that can be told without the rows themselves: that their numbers
// ascend, and names, sizes and counts of the metrics.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID.
absl::Status CheckRowMetrics(const RowMetricsList& rows);

// Adds metrics that CheckRowMetrics takes to the stored rows of a comparison,
// to the rows that `comparison`, its document, shows itself, and their names to
// that; both are durable on return. One of the same name is replaced. Nobody
// else may write rows or document meanwhile.
//
// Errors, and then nothing is written: INVALID_ARGUMENT with FIELD_INVALID for
// a row that is not there, or more metrics than there may be; DATA_LOSS for a
// row that cannot be read. Those of the store, which may then hold some of the
// metrics.
absl::Status StoreRowMetrics(storage::Comparisons& store, uint64_t id,
                             const RowMetricsList& rows,
                             v1::Comparison& comparison);

}  // namespace msitd::compare
