// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/index/name/name_table.h"

namespace msitd::storage {

// Finds the numbers of the names of one chunk. Equal names of a chunk mostly
// refer to the same piece of its text, so that a small table indexed by offset
// saves most lookups. Thread-compatible; the chunk and `names` must outlive
// this object.
class ChunkNames {
 public:
  ChunkNames(const chunk::Chunk& chunk, NewNames& names)
      : chunk_(chunk), names_(names), found_(kPlaceCount) {}

  absl::StatusOr<uint32_t> IdOf(chunk::TextRef ref) {
    FoundName& found = found_[ref.offset * kSpread >> (32 - kPlaceBits)];
    // 0 is not the number of any name.
    if (found.id == 0 || found.ref.offset != ref.offset ||
        found.ref.length != ref.length) {
      MSITD_ASSIGN_OR_RETURN(found.id, names_.Intern(chunk_.Text(ref)));
      found.ref = ref;
    }
    return found.id;
  }

 private:
  struct FoundName {
    chunk::TextRef ref{};
    uint32_t id = 0;
  };
  // Twice the maximum number of records of a chunk. If several names map to one
  // slot, the last one is stored; the others are looked up again.
  static constexpr int kPlaceBits = 11;
  static constexpr size_t kPlaceCount = size_t{1} << kPlaceBits;
  static_assert(kPlaceCount == 2 * kChunkRecordsMax);
  // 2^32 divided by the golden ratio.
  static constexpr uint32_t kSpread = 0x9e3779b9;

  const chunk::Chunk& chunk_;
  NewNames& names_;
  std::vector<FoundName> found_;
};

}  // namespace msitd::storage
