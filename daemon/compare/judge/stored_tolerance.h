// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compute/element_metrics.h"
#include "msitd/v1/comparison_service.pb.h"

// Whether elements of a stored row exceed rtol and atol of another policy.
namespace msitd::compare {

enum class StoredTolerance : uint8_t {
  kSame,      // The metrics were computed with the same tolerance.
  kKept,      // Proven: no element exceeds it.
  kExceeded,  // Proven: at least one element exceeds it.
  kUnknown,
};

// Determines whether elements of a row, whose metrics are `metrics`, exceed the
// tolerance of `request`. Changes the metrics that depend on the tolerance to
// those of this one: `outlier_count` remains only if it is known, and
// `atol_needed` and `rtol_needed` only for kSame.
//
// atol_needed is the smallest atol that all elements keep with the stored rtol,
// and rtol_needed vice versa, so another number for one of the two is decided
// exactly. If both differ, a tolerance that is looser in both is kept if the
// stored one is, and one that is tighter in both is exceeded if the stored one
// is. Without any stored tolerance, max_abs proves that an atol is kept.
StoredTolerance JudgeTolerance(const v1::ComparisonRow& row,
                               const compute::ElementRequest& request,
                               RowMetrics& metrics);

}  // namespace msitd::compare
