// SPDX-License-Identifier: Apache-2.0

// Included by exactly one source for each instruction set; see part_hash.h.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "protos/compute/kernel/part_hash.h"

namespace msitd::compute {
namespace {

static_assert(sizeof(XXH3_state_t) <= sizeof(PartHashState));
static_assert(alignof(XXH3_state_t) <= alignof(PartHashState));

void Start(PartHashState& state) {
  XXH3_128bits_reset(reinterpret_cast<XXH3_state_t*>(&state));
}

void Update(PartHashState& state, const void* bytes, size_t size) {
  XXH3_128bits_update(reinterpret_cast<XXH3_state_t*>(&state), bytes, size);
}

void Finish(const PartHashState& state, uint64_t (&out)[2]) {
  const XXH128_hash_t hash =
      XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(&state));
  out[0] = hash.low64;
  out[1] = hash.high64;
}

constexpr PartHashFunctions kFunctions = {Start, Update, Finish};

}  // namespace
}  // namespace msitd::compute
