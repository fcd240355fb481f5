// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::match {

// Parses JSON of a stranger. Errors: INVALID_ARGUMENT with the name of the
// file, also beyond kJsonValuesMax or kJsonDepthMax.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view file,
                                         std::string_view text);

}  // namespace msitd::match
