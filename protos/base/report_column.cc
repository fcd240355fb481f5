// SPDX-License-Identifier: Apache-2.0
#include "protos/base/report_column.h"

#include <algorithm>
#include <iterator>

namespace msitd {
namespace {

// A test compares this list with the headings of the reports.
constexpr std::string_view kColumns[] = {
    // Fields of v1.ComparisonRow.
    "row", "rank", "token", "op", "call", "io", "index", "sequence", "golden",
    "target", "verdict", "reason", "predicate", "bitwise_equal", "metrics",
    "rtol", "atol", "origin", "watches", "custom_metrics", "sampled",
    "amplification", "for_want_of_ranks", "layout_hint", "pairing",
    "statistics_in_part", "unread", "not_compared", "roundings",
    "flipped_element_count", "explained", "request", "judge_basis",
    "lacks_metrics",
    // Tables, CSV and workbooks.
    "dtype", "shape", "golden_dtype", "golden_shape", "golden_min",
    "golden_max", "golden_mean", "target_dtype", "target_shape", "target_min",
    "target_max", "target_mean", "golden_kind", "golden_value", "target_kind",
    "target_value", "golden_view", "target_view",
    // The report in the form of msit.
    "token_id", "data_id", "golden_data_path", "golden_op_type",
    "golden_max_value", "golden_min_value", "golden_mean_value", "my_data_path",
    "my_op_type", "my_dtype", "my_shape", "my_max_value", "my_min_value",
    "my_mean_value", "cosine_similarity", "max_relative_error",
    "mean_relative_error", "max_absolute_error", "mean_absolute_error",
    "kl_divergence", "relative_euclidean_distance", "cmp_fail_reason",
    // The reports in the form of msprobe.
    "Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "MinRelativeErr",
    "MeanRelativeErr", "NormRelativeErr", "Result", "Err_message", "Data_name"};

}  // namespace

bool IsReportColumn(std::string_view name) {
  return std::find(std::begin(kColumns), std::end(kColumns), name) !=
         std::end(kColumns);
}

}  // namespace msitd
