// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msitd::compute {

// Returns the Highway targets that this CPU can run, as a set of bits; no
// fallback is among them. Says what hwy::SupportedTargets does. That lies in a
// shared library, and libmsit needs none but the system's.
int64_t CpuTargets();

}  // namespace msitd::compute
