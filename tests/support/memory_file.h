// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "storage/env/env.h"

namespace msitd::testing {

// A read-only file in memory.
class MemoryFile final : public storage::File {
 public:
  std::vector<std::byte> bytes;

  absl::Status Write(uint64_t,
                     std::span<const std::span<const std::byte>>) override {
    return absl::UnimplementedError("read-only");
  }
  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                std::span<std::byte> out) override {
    if (offset >= bytes.size()) return 0;
    const uint64_t count = std::min(out.size(), bytes.size() - offset);
    std::memcpy(out.data(), bytes.data() + offset, count);
    return count;
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Preallocate(uint64_t) override { return absl::OkStatus(); }
  absl::Status Truncate(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> Size() override { return bytes.size(); }
  absl::Status PunchHole(uint64_t, uint64_t) override {
    return absl::UnimplementedError("read-only");
  }
  absl::StatusOr<uint64_t> AllocatedBytes() override { return bytes.size(); }
};

}  // namespace msitd::testing
