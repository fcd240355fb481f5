// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/libmsit/core/tensor_view.h"
#include "protos/base/summary.h"
#include "protos/compute/digest_memory.h"

// Creates the payload of a record from a tensor in memory. Byte offsets refer
// to the tensor in row-major order without gaps. Digests of bytes without gaps
// are computed with a `memory` of earlier ones.
namespace msitd::libmsit {

// Copies the bytes [part_offset, part_offset + out.size()) to `out`.
void CopyPart(const TensorView& tensor, uint64_t part_offset,
              std::span<std::byte> out);

// Returns the digest of the bytes [part_offset, part_offset + bytes). If
// another thread writes to the tensor at the same time, only this digest may be
// that of mixed bytes: `memory` keeps no digest with a false summary.
Digest DigestOf(const TensorView& tensor, uint64_t part_offset, uint64_t bytes,
                compute::DigestMemory& memory);

// Fills the payload of a record with a digest (chunk::kDigestSpan). If `out`
// has room for bytes after it, the digest is followed by these bytes; otherwise
// it is the digest of `part_bytes` bytes, which are not copied. If another
// thread writes to the tensor at the same time, the digest is still that of the
// bytes that follow it.
void FillDigested(const TensorView& tensor, uint64_t part_offset,
                  uint64_t part_bytes, compute::DigestMemory& memory,
                  std::span<std::byte> out);

// Writes the digest of `bytes` to the beginning of the payload of a record. If
// the bytes are sent as well, they are in `out` after the digest.
void PutDigest(std::span<const std::byte> bytes, DType dtype,
               compute::DigestMemory& memory, std::span<std::byte> out);

}  // namespace msitd::libmsit
