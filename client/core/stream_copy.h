// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace msitd::client {

// Copies `out.size()` bytes from `from`, which do not overlap `out`, for a
// reader that is not this thread. Long copies go past the caches where the
// processor can do that: they take less of the memory's bandwidth, since no
// line of `out` is read first, and leave in the caches what the host process
// works with. What a thread hands over afterwards by a release, it hands over
// with these bytes.
void StreamCopy(const std::byte* from, std::span<std::byte> out);

}  // namespace msitd::client
