// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/service/call/reactor.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::service {

// Returns the source of the responses of StreamComparisonRows: the rows of a
// comparison as they become available, and the comparison itself in each
// message. Borrows `jobs`.
//
// Errors: INVALID_ARGUMENT or NOT_FOUND for invalid names and numbers.
absl::StatusOr<std::unique_ptr<StreamSource<v1::StreamComparisonRowsResponse>>>
StreamRows(compare::ComparisonJobs& jobs,
           const v1::StreamComparisonRowsRequest& request);

}  // namespace msitd::service
