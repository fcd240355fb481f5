// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/chunk/chunk.h"

namespace msitd::fuzz {

// Uses all parts of a chunk that passed its checks, as the daemon does. Ends
// the process if the chunk violates the contract of chunk.h. Payloads are read,
// but their values are not trusted.
void UseHead(const chunk::Chunk& chunk);
void UsePayload(const chunk::Chunk& chunk);

}  // namespace msitd::fuzz
