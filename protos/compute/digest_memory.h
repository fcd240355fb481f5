// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "protos/base/dtype.h"
#include "protos/base/summary.h"

namespace msitd::compute {

// Computes digests, and remembers the summaries of the last ones by their
// hashes. The same bytes are often recorded several times: as the output of one
// op and the input of the next, under another shape, or as a weight of each
// token. Their hash takes about a third of the time of their digest.
//
// Thread-safe.
class DigestMemory {
 public:
  // Digests of fewer bytes are computed, because they take no longer than a
  // search.
  static constexpr size_t kBytesMin = size_t{16} << 10;

  // Remembers up to `capacity` digests, which is a power of two (checked), in
  // 128 bytes each. The memory is allocated when it is first needed; if
  // there is none, all digests are computed.
  explicit DigestMemory(size_t capacity);

  // Returns what DigestPart of digest.h does. Digests of different owners are
  // separate. `bytes` must not change during the call; otherwise later digests
  // of the same owner may have the summary of other bytes.
  Digest DigestPart(std::span<const std::byte> bytes, DType dtype,
                    uint64_t owner = 0);

  // Returns the digest of `bytes` if it is remembered. They may change during
  // the call: the result is then a digest of other bytes, or nothing.
  std::optional<Digest> Recall(std::span<const std::byte> bytes, DType dtype,
                               uint64_t owner = 0);

  // Remembers a digest that was computed otherwise, of a part of `bytes` bytes
  // that did not change during that time.
  void Add(const Digest& digest, size_t bytes, DType dtype, uint64_t owner = 0);

 private:
  struct Entry {
    ContentHash hash;
    // 0 if there is no digest.
    size_t bytes = 0;
    uint64_t owner = 0;
    DType dtype = DType::kUnspecified;
    Summary summary;
  };

  std::optional<Summary> Find(const ContentHash& hash, size_t bytes,
                              DType dtype, uint64_t owner);
  size_t PlaceOf(const ContentHash& hash) const {
    return static_cast<size_t>(hash.low) & (capacity_ - 1);
  }

  const size_t capacity_;
  std::mutex mu_;
  // `capacity_` entries, guarded by mu_. Null before the first one.
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace msitd::compute
