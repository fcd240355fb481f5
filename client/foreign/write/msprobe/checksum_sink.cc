// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/checksum_sink.h"

#include <fmt/format.h>

#include "client/foreign/write/writer/crc32.h"

namespace msitd::write {

absl::Status ChecksumSink::Add(std::string_view bytes) {
  if (kind_ == Checksum::kCrc32) crc_ = Crc32(crc_, bytes);
  if (kind_ == Checksum::kXor) {
    // Words are little-endian, independent of the ends of pieces.
    for (const char c : bytes) {
      xor_ ^= uint64_t{static_cast<unsigned char>(c)} << 8 * (count_++ % 8);
    }
  }
  return absl::OkStatus();
}

std::optional<MsprobeChecksum> ChecksumSink::Take() const {
  switch (kind_) {
    case Checksum::kNone:
      return std::nullopt;
    case Checksum::kCrc32:
      return MsprobeChecksum{fmt::format("{:08x}", crc_), false};
    case Checksum::kXor:
      return MsprobeChecksum{fmt::format("0x{:016x}", xor_), true};
  }
  return std::nullopt;
}

}  // namespace msitd::write
