// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace msitd::ingest {

// Returns UNAVAILABLE with the reason NOT_SERVING.
absl::Status NotServing();

// Returns an error with the reason RUN_SEALED. `what` describes what happened
// to the run, such as "was sealed".
absl::Status RunSealed(std::string_view run, std::string_view what);

}  // namespace msitd::ingest
