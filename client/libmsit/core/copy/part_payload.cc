// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/part_payload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "client/libmsit/core/copy/stream_copy.h"
#include "client/libmsit/core/copy/strided_copy.h"
#include "protos/chunk/chunk_format.h"
#include "protos/compute/digest.h"

namespace msitd::libmsit {
namespace {

// The buffer is on the stack of a host thread, which may be small. It also fits
// into the first-level cache.
constexpr size_t kGatherBytes = size_t{16} << 10;
static_assert(kGatherBytes % compute::PartDigester::kPieceStep == 0);

bool HasNoGaps(const TensorView& tensor) {
  return tensor.byte_strides.empty() ||
         IsContiguous(tensor.dims, tensor.byte_strides,
                      ElementBytes(tensor.dtype));
}

// Copies the same bytes of a tensor that is not contiguous.
void GatherPart(const TensorView& tensor, uint64_t part_offset,
                std::span<std::byte> out) {
  const uint32_t element_bytes = ElementBytes(tensor.dtype);
  CopyStrided(tensor.data, tensor.dims, tensor.byte_strides, element_bytes,
              part_offset / element_bytes, out.size() / element_bytes,
              out.data());
}

}  // namespace

void CopyPart(const TensorView& tensor, uint64_t part_offset,
              std::span<std::byte> out) {
  if (out.empty()) return;
  if (HasNoGaps(tensor)) {
    StreamCopy(tensor.data + part_offset, out);
  } else {
    GatherPart(tensor, part_offset, out);
  }
}

Digest DigestOf(const TensorView& tensor, uint64_t part_offset, uint64_t bytes,
                compute::DigestMemory& memory) {
  const bool has_no_gaps = bytes == 0 || HasNoGaps(tensor);
  if (has_no_gaps) {
    const std::span part(tensor.data + part_offset, bytes);
    if (bytes < compute::DigestMemory::kBytesMin) {
      return compute::DigestPart(part, tensor.dtype);
    }
    if (const auto known = memory.Recall(part, tensor.dtype)) return *known;
  }
  // The host may change the tensor at any time. A digest that is remembered has
  // the hash and the summary of one copy.
  compute::PartDigester digester(tensor.dtype);
  alignas(64) std::array<std::byte, kGatherBytes> gathered;
  for (uint64_t done = 0; done < bytes;) {
    const auto piece = std::span(gathered).first(
        std::min<uint64_t>(bytes - done, kGatherBytes));
    if (has_no_gaps) {
      std::memcpy(piece.data(), tensor.data + part_offset + done, piece.size());
    } else {
      GatherPart(tensor, part_offset + done, piece);
    }
    digester.Add(piece);
    done += piece.size();
  }
  const Digest digest = digester.Finish();
  memory.Add(digest, bytes, tensor.dtype);
  return digest;
}

void PutDigest(std::span<const std::byte> bytes, DType dtype,
               compute::DigestMemory& memory, std::span<std::byte> out) {
  const Digest digest = memory.DigestPart(bytes, dtype);
  std::memcpy(out.data(), &digest, sizeof(digest));
  if (out.size() == sizeof(digest)) return;
  std::memset(out.data() + sizeof(digest), 0,
              chunk::kDigestSpan - sizeof(digest));
}

void FillDigested(const TensorView& tensor, uint64_t part_offset,
                  uint64_t part_bytes, compute::DigestMemory& memory,
                  std::span<std::byte> out) {
  if (out.size() != sizeof(Digest)) {
    const auto bytes = out.subspan(chunk::kDigestSpan);
    CopyPart(tensor, part_offset, bytes);
    return PutDigest(bytes, tensor.dtype, memory, out);
  }
  const Digest digest = DigestOf(tensor, part_offset, part_bytes, memory);
  std::memcpy(out.data(), &digest, sizeof(digest));
}

}  // namespace msitd::libmsit
