// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd {

// Key of the initial metadata by which a daemon tells its id in each answer:
// a random text, a new one with each start. Two addresses with the same id are
// of one daemon.
inline constexpr char kDaemonIdKey[] = "msitd-daemon-id";

}  // namespace msitd
