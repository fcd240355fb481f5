// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/chunk/chunk.h"

namespace msitd::fuzz {

// Looks at all of a chunk that passed its checks, as the daemon does, and ends
// the process if something is not as chunk.h promises. Payloads are read but
// not trusted.
void UseHead(const chunk::Chunk& chunk);
void UsePayload(const chunk::Chunk& chunk);

}  // namespace msitd::fuzz
