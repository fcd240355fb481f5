// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// XXH3-128 of a part, fed piece by piece. One translation unit per instruction
// set holds its own copy of the hash, compiled for it; all give the same bits.
// This header and part_hash-inl.h use nothing but C headers, so that no inline
// function compiled for a newer CPU can be the copy that the linker keeps.
namespace msitd::compute {

// Storage of one unfinished hash.
struct alignas(64) PartHashState {
  unsigned char bytes[576];
};

struct PartHashFunctions {
  void (*start)(PartHashState& state);
  void (*update)(PartHashState& state, const void* bytes, size_t size);
  // Writes the low half first.
  void (*finish)(const PartHashState& state, uint64_t (&out)[2]);
};

const PartHashFunctions& BaselinePartHash();
#if defined(__x86_64__)
const PartHashFunctions& Avx2PartHash();
const PartHashFunctions& Avx512PartHash();
#endif

}  // namespace msitd::compute
