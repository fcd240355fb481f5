// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "client/foreign/formats/byte_source.h"

// The quantized types of GGUF.
//
// A tensor of such a type is a sequence of blocks. A block has a few scales and
// the small integers of 32 or 256 elements. No dtype of msitd has this form, so
// the values that the integers stand for are delivered as float32, as the
// programs that use these files compute them. Delivering the blocks as bytes
// would keep the file, but two files with the same values could not be
// compared.
namespace msitd::formats {

struct GgufBlockType {
  uint32_t number = 0;  // In the file.
  std::string_view name;
  uint32_t elements = 0;  // The number in a block.
  uint32_t bytes = 0;
  // Writes the values of one block to `out`, which has room for `elements`.
  // Null for a type that msitd cannot convert.
  void (*decode)(const uint8_t* block, float* out) = nullptr;
};

// Returns the type with this number; null if it is not a known type of blocks.
const GgufBlockType* FindGgufBlockType(uint32_t number);

// Returns the values of `block_count` blocks of a type with a decoder, as
// float32, from the bytes of `file` at `begin`. `file` has all of these bytes.
std::shared_ptr<const ByteSource> MakeGgufValues(
    std::shared_ptr<const ByteSource> file, uint64_t begin,
    uint64_t block_count, const GgufBlockType& type);

}  // namespace msitd::formats
