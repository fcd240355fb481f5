// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// What tells this process, and the launch that it belongs to, from others.
namespace msitd::client {

// Returns an id that no stream has had: its upper half is that of this process,
// and another one in a forked child.
uint64_t NewStreamId();

// Returns a text that all ranks of a launch have in common, and no other launch
// has as far as one can see: the environment variable MSITD_JOB; for a world
// size of 1 this process; what launchers say in the environment; or the process
// that started this one. At most kJobBytesMax bytes.
std::string LaunchOf(int32_t world_size);

}  // namespace msitd::client
