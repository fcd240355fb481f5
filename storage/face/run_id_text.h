// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "storage/face/types.h"

namespace msitd::storage {

// Returns the id of a run as the API has it, v1::Run.id: no other run of any
// store gets it. The number of a run is not enough, because a store that was
// made anew counts from 1 again.
inline std::string RunIdText(const RunInfo& run) {
  return std::to_string(static_cast<uint64_t>(run.id)) + "-" +
         std::to_string(run.create_time_ns);
}

}  // namespace msitd::storage
