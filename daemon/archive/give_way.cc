// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/give_way.h"

#include <algorithm>
#include <thread>

#include "protos/status/status.h"

namespace msitd::archive {

absl::Status GiveWay::Rest(storage::StopCheck stop) {
  const auto now = Clock::now();
  const Clock::duration rest = std::min<Clock::duration>(
      (now - begin_) * options_.rest_factor, options_.rest_max);
  // If the others were idle before, one check is sufficient.
  int idle_count = was_busy_ ? 0 : options_.idle_looks - 1;
  while (Clock::now() < now + rest) {
    idle_count = is_busy_() ? 0 : idle_count + 1;
    was_busy_ = idle_count < options_.idle_looks;
    if (!was_busy_) break;
    MSITD_RETURN_IF_ERROR(stop());
    std::this_thread::sleep_for(options_.pause);
  }
  begin_ = Clock::now();
  return absl::OkStatus();
}

}  // namespace msitd::archive
