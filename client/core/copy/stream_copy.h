// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace msitd::client {

// Copies out.size() bytes from `from` to `out`, which do not overlap, for a
// reader that is not this thread.
//
// Long copies bypass the caches where the processor can do that. They then need
// less memory bandwidth, since no line of `out` is read first, and the caches
// keep what the host process works with. The copied bytes are ordered before
// any later release by this thread.
void StreamCopy(const std::byte* from, std::span<std::byte> out);

}  // namespace msitd::client
