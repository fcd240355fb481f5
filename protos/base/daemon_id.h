// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd {

// Key of the initial metadata in which a daemon sends its id with each
// response. The id is a random text that changes with each start. Two addresses
// with the same id belong to the same daemon.
inline constexpr char kDaemonIdKey[] = "msitd-daemon-id";

}  // namespace msitd
