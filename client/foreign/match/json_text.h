// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace msitd::match {

// Checks untrusted JSON before a tree is created from it. Returns
// INVALID_ARGUMENT with the name of the file if the text is not JSON, or
// exceeds kJsonValuesMax or kJsonDepthMax.
absl::Status CheckJson(std::string_view file, std::string_view text);

}  // namespace msitd::match
