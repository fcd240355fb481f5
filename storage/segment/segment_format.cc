// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_format.h"

#include <array>
#include <charconv>
#include <cstring>

#include "protos/base/check.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kSuffix = ".seg";
constexpr size_t kDigitsMin = 8;

uint64_t PageChecksum(std::span<const std::byte> page) {
  std::array<std::byte, kSegmentHeaderBytes> copy;
  std::memcpy(copy.data(), page.data(), copy.size());
  std::memset(copy.data() + offsetof(SegmentHeader, checksum), 0,
              sizeof(SegmentHeader::checksum));
  return chunk::HashBytes(copy).low;
}

}  // namespace

void EncodeSegmentHeader(SegmentHeader header, std::span<std::byte> page) {
  MSITD_CHECK(page.size() == kSegmentHeaderBytes);
  header.checksum = 0;
  std::memset(page.data(), 0, page.size());
  std::memcpy(page.data(), &header, sizeof(header));
  header.checksum = PageChecksum(page);
  std::memcpy(page.data(), &header, sizeof(header));
}

absl::StatusOr<SegmentHeader> DecodeSegmentHeader(
    std::span<const std::byte> page) {
  if (page.size() < kSegmentHeaderBytes) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{} bytes are too few for the header of a segment",
                      page.size());
  }
  SegmentHeader header;
  std::memcpy(&header, page.data(), sizeof(header));
  if (header.magic != kSegmentMagic) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "magic {:#x} is not that of a segment", header.magic);
  }
  if (header.version != kSegmentVersion) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "segment version {} is not {}", header.version,
                      kSegmentVersion);
  }
  if (header.checksum != PageChecksum(page)) {
    return absl::DataLossError(
        "the header of the segment does not match its checksum");
  }
  return header;
}

std::string SegmentFileName(SegmentId id) {
  return fmt::format("{:08}{}", ToNumber(id), kSuffix);
}

std::optional<SegmentId> ParseSegmentFileName(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number);
  if (name.size() < kDigitsMin || error != std::errc() ||
      end != name.data() + name.size() || number == 0 ||
      SegmentFileName(SegmentId{number}).size() !=
          name.size() + kSuffix.size()) {
    return std::nullopt;
  }
  return SegmentId{number};
}

}  // namespace msitd::storage
