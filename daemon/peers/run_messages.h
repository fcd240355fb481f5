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

// Conversion and validation of messages to and from peers that describe runs.
// Errors are DATA_LOSS with a short message.
namespace msitd::peers {

// Runs with more coordinates are refused.
inline constexpr size_t kRemoteCoordinatesMax = size_t{1} << 24;

// Returns the run at the beginning of a description, with the id 0.
absl::StatusOr<storage::RunInfo> ToRunInfo(
    const v1::DescribeRunResponse& description);

absl::StatusOr<storage::RankCoverage> ToCoverage(
    const v1::DescribeRunResponse::Coverage& coverage);

// Adds the coordinates of a message, which must continue in primary order.
absl::Status AddCoordinates(const v1::ListCoordinatesResponse& message,
                            std::vector<storage::Coordinate>& out);

// Returns filters that together cover the selector, in primary order, and that
// must be sent one after another. Each filter is within the limits of a peer.
// Filters that a peer would refuse because they select nothing are omitted, so
// an empty result selects nothing. A list of devices that is too long is
// omitted from the filters.
std::vector<v1::TensorFilter> ToFilters(const Selector& selector);

}  // namespace msitd::peers
