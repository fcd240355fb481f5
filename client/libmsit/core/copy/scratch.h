// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "client/libmsit/core/delivery/slot_pool.h"

namespace msitd::libmsit {

// Memory for bytes of which only digests are sent. A single mapping, whose
// address does not change once it exists, so that it can be pinned.
// Thread-compatible.
class Scratch {
 public:
  // Documented in msit.h and docs/torch.md.
  static constexpr uint64_t kBytes = uint64_t{32} << 20;
  static constexpr uint64_t kAlignment = 256;

  // Allocates `bytes` bytes, at least one. Empty if there is no room, or if the
  // system has no memory.
  std::span<std::byte> Take(uint64_t bytes);

  // Frees a range that Take returned.
  void Give(std::span<std::byte> piece);

  // The whole mapping. Empty until Take has returned memory.
  std::span<std::byte> memory() const { return memory_.bytes(); }

 private:
  SlotMemory memory_;
  // Lengths of the free ranges by their offset. Adjacent ranges are merged.
  std::map<uint64_t, uint64_t> free_;
};

}  // namespace msitd::libmsit
