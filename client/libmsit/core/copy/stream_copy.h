// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace msitd::libmsit {

// Copies out.size() bytes from `from` to `out`, which must not overlap, for a
// reader on another thread or in another process.
//
// Long copies bypass the caches where the processor supports it. They then need
// less memory bandwidth, because no line of `out` is read first, and the caches
// keep the data of the host process. The copied bytes are ordered before any
// later release by this thread.
void StreamCopy(const std::byte* from, std::span<std::byte> out);

}  // namespace msitd::libmsit
