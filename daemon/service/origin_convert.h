// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/origin/find_origin.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::service {

// Returns the condition of a request. An empty `where` is the condition on NaN
// and infinities.
//
// Errors: INVALID_ARGUMENT with PREDICATE_INVALID.
absl::StatusOr<origin::Condition> ToCondition(
    const v1::FindOriginRequest& request);

// Sets all fields of the response. `run` is the name of the run.
void ToProto(const origin::OriginAnswer& answer, const std::string& run,
             v1::FindOriginResponse& out);

}  // namespace msitd::service
