// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/recording_time.h"

namespace msitd::libmsit {

RecordingTime::Times RecordingTime::Read() const {
  const uint64_t recording_ticks = ticks();
  const uint64_t now = Ticks();
  const auto open = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - first_time_);
  Times times;
  times.open_ns = static_cast<uint64_t>(open.count());
  // The counter may restart while the machine is suspended.
  if (now > first_ticks_) {
    times.recording_ns =
        static_cast<uint64_t>(static_cast<double>(recording_ticks) /
                              static_cast<double>(now - first_ticks_) *
                              static_cast<double>(times.open_ns));
  }
  return times;
}

}  // namespace msitd::libmsit
