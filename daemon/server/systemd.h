// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

// Messages to the service manager. They do nothing where there is none.
namespace msitd::server {

// The start takes longer than usual: kLongStart from now.
inline constexpr std::chrono::hours kLongStart{24};
void NotifyLongStart();

void NotifyReady();
// Followed by NotifyReady once the configuration has been read again.
void NotifyReloading();
void NotifyStopping();
void NotifyWatchdog();

// How often the service manager wants to hear NotifyWatchdog: half of the time
// after which it gives up. Nothing if it does not watch.
std::optional<std::chrono::milliseconds> WatchdogInterval();

}  // namespace msitd::server
