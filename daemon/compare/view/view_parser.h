// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/view/view_step.h"

namespace msitd::compare {

// Parses the text of a view; see msitd.v1.View.view for the grammar. Whether
// the steps fit a tensor is determined by MakeViewPlan. The text is untrusted.
//
// Errors: INVALID_ARGUMENT with the position, from 1, and the reason. Example:
// `at 9 of "permute(a)": needs a number`.
absl::StatusOr<std::vector<ViewStep>> ParseView(std::string_view text);

}  // namespace msitd::compare
