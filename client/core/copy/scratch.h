// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "client/core/delivery/slot_pool.h"

namespace msitd::client {

// Memory for bytes of which only digests are sent. One mapping, which stays
// where it is once there is one, so that it can be pinned. Thread-compatible.
class Scratch {
 public:
  // Named to users in msit.h and docs/torch.md.
  static constexpr uint64_t kBytes = uint64_t{32} << 20;
  static constexpr uint64_t kAlignment = 256;

  // Returns `bytes` bytes, at least one. Empty if there is no room, or if the
  // system has no memory.
  std::span<std::byte> Take(uint64_t bytes);

  // Takes back what Take returned.
  void Give(std::span<std::byte> piece);

  // All of it. Empty until Take has returned something.
  std::span<std::byte> memory() const { return memory_.bytes(); }

 private:
  SlotMemory memory_;
  // Length of each free range by where it begins. No two of them touch.
  std::map<uint64_t, uint64_t> free_;
};

}  // namespace msitd::client
