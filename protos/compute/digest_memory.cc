// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/digest_memory.h"

#include <bit>
#include <new>

#include "protos/base/check.h"
#include "protos/compute/digest.h"

namespace msitd::compute {

DigestMemory::DigestMemory(size_t capacity) : capacity_(capacity) {
  MSITD_CHECK(std::has_single_bit(capacity));
}

Digest DigestMemory::DigestPart(std::span<const std::byte> bytes, DType dtype,
                                uint64_t owner) {
  if (bytes.size() < kBytesMin) return compute::DigestPart(bytes, dtype);
  Digest digest;
  digest.hash = HashPart(bytes);
  if (const auto known = Find(digest.hash, bytes.size(), dtype, owner)) {
    digest.summary = *known;
    return digest;
  }
  digest.summary = Summarize(bytes, dtype);
  Add(digest, bytes.size(), dtype, owner);
  return digest;
}

std::optional<Digest> DigestMemory::Recall(std::span<const std::byte> bytes,
                                           DType dtype, uint64_t owner) {
  if (bytes.size() < kBytesMin) return std::nullopt;
  const ContentHash hash = HashPart(bytes);
  const std::optional<Summary> known = Find(hash, bytes.size(), dtype, owner);
  if (!known.has_value()) return std::nullopt;
  return Digest{*known, hash};
}

void DigestMemory::Add(const Digest& digest, size_t bytes, DType dtype,
                       uint64_t owner) {
  if (bytes < kBytesMin) return;
  const std::lock_guard lock(mu_);
  if (entries_ == nullptr) {
    entries_.reset(new (std::nothrow) Entry[capacity_]);
    if (entries_ == nullptr) return;
  }
  entries_[PlaceOf(digest.hash)] = {digest.hash, bytes, owner, dtype,
                                    digest.summary};
}

std::optional<Summary> DigestMemory::Find(const ContentHash& hash, size_t bytes,
                                          DType dtype, uint64_t owner) {
  const std::lock_guard lock(mu_);
  if (entries_ == nullptr) return std::nullopt;
  const Entry& entry = entries_[PlaceOf(hash)];
  if (entry.hash != hash || entry.bytes != bytes || entry.dtype != dtype ||
      entry.owner != owner) {
    return std::nullopt;
  }
  return entry.summary;
}

}  // namespace msitd::compute
