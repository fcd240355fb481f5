// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/dtype.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Records of a rank that are looked at.
inline constexpr int kTypedRecordsMax = 4096;

// Returns the coarsest type of what the first ops of a rank have computed:
// kUnspecified if there is none, and if they cannot be read.
DType CoarsestType(storage::RunReader& run, int32_t rank,
                   storage::StopCheck stop);

}  // namespace msitd::compare
