// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/write/export.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"

namespace msitd::write {

// Computes the checksum of a tensor from its bytes as they arrive.
class ChecksumSink {
 public:
  explicit ChecksumSink(Checksum kind) : kind_(kind) {}

  // Appends bytes. Always returns OK.
  absl::Status Add(std::string_view bytes);

  // Returns the checksum of all bytes; nothing if no checksum was requested.
  std::optional<MsprobeChecksum> Take() const;

 private:
  const Checksum kind_;
  uint32_t crc_ = 0;
  uint64_t xor_ = 0;
  uint64_t count_ = 0;
};

}  // namespace msitd::write
