// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/systemd.h"

#include <systemd/sd-daemon.h>

#include <cstdint>

namespace msitd::server {

void NotifyLongStart() {
  const auto us = std::chrono::microseconds(kLongStart).count();
  sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%lld", static_cast<long long>(us));
}
void NotifyReady() { sd_notify(0, "READY=1"); }
void NotifyReloading() { sd_notify(0, "RELOADING=1"); }
void NotifyStopping() { sd_notify(0, "STOPPING=1"); }
void NotifyWatchdog() { sd_notify(0, "WATCHDOG=1"); }

std::optional<std::chrono::milliseconds> WatchdogInterval() {
  uint64_t timeout_us = 0;
  if (sd_watchdog_enabled(0, &timeout_us) <= 0) return std::nullopt;
  return std::chrono::milliseconds(timeout_us / 2000);
}

}  // namespace msitd::server
