// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/job/comparison_engine.h"
#include "msitd/v1/comparison_service.pb.h"

// Validation of the requests of ComparisonService.
namespace msitd::service {

// Returns the id in the name of a comparison.
//
// Errors: NOT_FOUND with COMPARISON_NOT_FOUND if `name` is not a valid name.
absl::StatusOr<uint64_t> ToComparisonId(std::string_view name);

// Returns the plan of a new comparison.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID or PREDICATE_INVALID.
absl::StatusOr<compare::ComparisonPlan> ToPlan(const v1::Comparison& request);

// Returns the policy of a request.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID or PREDICATE_INVALID.
absl::StatusOr<compare::Policy> ToPolicy(const v1::Policy& request);

// Returns the policy of a request to judge rows again, which cannot ask for
// anything that needs tensors.
//
// Errors: as ToPolicy.
absl::StatusOr<compare::Policy> ToJudgingPolicy(const v1::Policy& request);

}  // namespace msitd::service
