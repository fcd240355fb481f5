// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/face/comparisons.h"

// Metrics that clients add to the rows of a comparison that has ended.
namespace msitd::compare {

// Maximum number of custom metrics of a row, and of names of custom metrics of
// a comparison. Requests that exceed it are refused.
inline constexpr int kCustomMetricsMax = 16;
inline constexpr size_t kCustomMetricNameBytesMax = 64;
inline constexpr size_t kCustomMetricTextBytesMax = 1024;
// Maximum number of rows in a request.
inline constexpr int kCustomMetricRowsMax = 1000;

using RowMetricsList =
    google::protobuf::RepeatedPtrField<v1::AddRowMetricsRequest::RowMetrics>;

// Checks everything that can be checked without the stored rows: row numbers
// must ascend, and the names, sizes and numbers of the metrics must be valid.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID.
absl::Status CheckRowMetrics(const RowMetricsList& rows);

// Adds metrics, which CheckRowMetrics must have accepted, to the stored rows of
// a comparison. Also adds them to the rows in `comparison`, its document, and
// adds their names to the document. A metric replaces one of the same name.
// Rows and document are durable on return. The caller must ensure that nothing
// else writes them during the call.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID for a row that does not exist, or
// if there would be too many metrics; DATA_LOSS for a row that cannot be read.
// Nothing is written in these cases. After an error of the store, some of the
// metrics may be stored.
absl::Status StoreRowMetrics(storage::Comparisons& store, uint64_t id,
                             const RowMetricsList& rows,
                             v1::Comparison& comparison);

}  // namespace msitd::compare
