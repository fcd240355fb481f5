// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Tells this process, and the launch it belongs to, from others.
namespace msitd::client {

// Returns an id that no stream has had. Its upper half belongs to this process;
// a forked child has another one.
uint64_t NewStreamId();

// Returns a text that all ranks of a launch share and, as far as can be known,
// no other launch has: the environment variable MSITD_JOB; for a world size of
// 1, this process; what launchers say in the environment; or the parent
// process. At most kJobBytesMax bytes.
std::string LaunchOf(int32_t world_size);

}  // namespace msitd::client
