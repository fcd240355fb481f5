// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "storage/index/table/shared_table.h"

namespace msitd::storage {

// Remembers the last location of bytes, for a limited number of different ones.
// The table has two halves: when the young half is full, it replaces the old
// half, whose entries are dropped. Thread-compatible.
class CopyTable {
 public:
  // About 40 MiB.
  static constexpr size_t kCopiesMax = size_t{1} << 19;

  explicit CopyTable(size_t copies_max = kCopiesMax)
      : copies_max_(copies_max) {}

  std::optional<BytePlace> Find(const SharedBytes& bytes) const {
    for (const Places* places : {&young_, &old_}) {
      const auto it = places->find(bytes);
      if (it != places->end()) return it->second;
    }
    return std::nullopt;
  }

  // Replaces the location if the table already has the bytes.
  void Put(const SharedBytes& bytes, const BytePlace& place) {
    if (young_.size() >= copies_max_ / 2 && !young_.contains(bytes)) {
      old_ = std::exchange(young_, {});
    }
    young_[bytes] = place;
  }

  void Clear() {
    young_.clear();
    old_.clear();
  }

  size_t size() const { return young_.size() + old_.size(); }

 private:
  struct Hash {
    size_t operator()(const SharedBytes& bytes) const noexcept {
      return bytes.hash.low ^ static_cast<uint64_t>(bytes.run) << 32 ^
             bytes.bytes;
    }
  };
  using Places = std::unordered_map<SharedBytes, BytePlace, Hash>;

  const size_t copies_max_;
  Places young_;
  Places old_;  // Outdated for bytes that are also in young_.
};

}  // namespace msitd::storage
