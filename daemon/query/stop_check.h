// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace msitd::query {

// Asked now and then by long work; an error ends the work and is its result.
using StopCheck = absl::FunctionRef<absl::Status()>;

// Tensors between two questions: few enough to stop within milliseconds, many
// enough to cost nothing.
inline constexpr uint64_t kStopCheckInterval = 256;

}  // namespace msitd::query
