// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "storage/face/types.h"

namespace msitd::storage {

// Returns the id of a run for the API (v1::Run.id), which no other run of any
// store gets. The number of a run is not sufficient, because a store that is
// created again starts from 1.
inline std::string RunIdText(const RunInfo& run) {
  return std::to_string(static_cast<uint64_t>(run.id)) + "-" +
         std::to_string(run.create_time_ns);
}

}  // namespace msitd::storage
