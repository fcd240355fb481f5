// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/core/tensor_view.h"
#include "protos/base/summary.h"

// The payload of a record, made of a tensor that lies in memory. Bytes of it
// are counted as if it lay in row-major order without gaps.
namespace msitd::client {

// Copies the bytes [part_offset, part_offset + out.size()) to `out`.
void CopyPart(const TensorView& tensor, uint64_t part_offset,
              std::span<std::byte> out);

// Returns the digest of the bytes [part_offset, part_offset + bytes). Each is
// read once, where it lies.
Digest DigestOf(const TensorView& tensor, uint64_t part_offset, uint64_t bytes);

// Fills the payload of a record with a digest (chunk::kDigestSpan): with the
// bytes that follow it if `out` has room for some, otherwise with the digest of
// `part_bytes` bytes alone. If somebody writes to the tensor meanwhile, the
// digest is still that of the bytes that follow.
void FillDigested(const TensorView& tensor, uint64_t part_offset,
                  uint64_t part_bytes, std::span<std::byte> out);

// Begins the payload of a record with the digest of `bytes`. If more than a
// digest is sent, `bytes` are in `out`, behind it.
void PutDigest(std::span<const std::byte> bytes, DType dtype,
               std::span<std::byte> out);

}  // namespace msitd::client
