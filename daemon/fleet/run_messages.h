// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "msitd/v1/filter.pb.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/base/selector.h"
#include "storage/face/types.h"

// What a peer is asked and what it says of a run, checked. Errors are
// DATA_LOSS, in a few words.
namespace msitd::fleet {

// More of a run are refused.
inline constexpr size_t kRemoteCoordinatesMax = size_t{1} << 24;

// Returns the run that a description begins with; it has the id 0.
absl::StatusOr<storage::RunInfo> ToRunInfo(
    const v1::DescribeRunResponse& description);

absl::StatusOr<storage::RankCoverage> ToCoverage(
    const v1::DescribeRunResponse::Coverage& coverage);

// Adds the coordinates of a message, which must go on in primary order.
absl::Status AddCoordinates(const v1::ListCoordinatesResponse& message,
                            std::vector<storage::Coordinate>& out);

// The filters to ask for one after the other, so that all of the selector is
// there, in primary order: each has no more than a peer takes. What it would
// refuse because it selects nothing is left out; no filters select nothing. A
// list of devices that is too long is left out of them.
std::vector<v1::TensorFilter> ToFilters(const Selector& selector);

}  // namespace msitd::fleet
