// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/chunk/chunk.h"

namespace msitd::fuzz {

// Uses all of a chunk that passed its checks, as the daemon does. Ends the
// process if something is not as chunk.h promises. Payloads are read but not
// trusted.
void UseHead(const chunk::Chunk& chunk);
void UsePayload(const chunk::Chunk& chunk);

}  // namespace msitd::fuzz
