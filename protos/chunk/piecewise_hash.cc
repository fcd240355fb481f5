// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/piecewise_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace msitd::chunk {

struct PiecewiseHash::State {
  XXH3_state_t hash;
};

PiecewiseHash::PiecewiseHash() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}

PiecewiseHash::~PiecewiseHash() = default;

void PiecewiseHash::Add(std::string_view piece) {
  XXH3_128bits_update(&state_->hash, piece.data(), piece.size());
}

ContentHash PiecewiseHash::Get() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return {hash.low64, hash.high64};
}

}  // namespace msitd::chunk
