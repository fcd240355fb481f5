// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace msitd::match {

// Checks JSON of a stranger before a tree of it is made. Errors:
// INVALID_ARGUMENT with the name of the file if it is none, or goes beyond
// kJsonValuesMax or kJsonDepthMax.
absl::Status CheckJson(std::string_view file, std::string_view text);

}  // namespace msitd::match
