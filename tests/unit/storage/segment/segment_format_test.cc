// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_format.h"

#include <gtest/gtest.h>

#include <cstring>

#include "protos/os/aligned_buffer.h"

namespace msitd::storage {
namespace {

SegmentHeader Example() {
  SegmentHeader header;
  header.store_id = 0x1122334455667788;
  header.segment_id = 3;
  header.previous_segment_id = 2;
  header.previous_end_bytes = 20480;
  header.create_time_ns = 1'700'000'000'000'000'000;
  return header;
}

TEST(SegmentFormatTest, HeaderHasTheBytesOfTheDocument) {
  AlignedBuffer page(kSegmentHeaderBytes);
  EncodeSegmentHeader(Example(), page.span());
  // The example in docs/format/segment.md.
  constexpr uint8_t kExpected[56] = {
      0x4d, 0x53, 0x54, 0x53, 0x01, 0x00, 0x00, 0x00,  // magic, version
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // store_id
      0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // segment_id
      0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // previous_segment_id
      0x00, 0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // previous_end_bytes
      0x00, 0x00, 0x2a, 0x36, 0xfe, 0x9c, 0x97, 0x17,  // create_time_ns
      0xd9, 0x77, 0x77, 0x83, 0x34, 0x74, 0x38, 0xe0,  // checksum
  };
  for (size_t i = 0; i < sizeof(kExpected); ++i) {
    EXPECT_EQ(static_cast<uint8_t>(page.data()[i]), kExpected[i]) << i;
  }
  for (size_t i = sizeof(kExpected); i < page.size(); ++i) {
    ASSERT_EQ(page.data()[i], std::byte{0}) << i;
  }
}

TEST(SegmentFormatTest, EveryFlippedBitOfTheHeaderIsNoticed) {
  AlignedBuffer page(kSegmentHeaderBytes);
  EncodeSegmentHeader(Example(), page.span());
  const auto header = DecodeSegmentHeader(page.span());
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->segment_id, 3u);
  EXPECT_EQ(header->previous_end_bytes, 20480u);
  for (size_t i = 0; i < page.size(); ++i) {
    page.data()[i] ^= std::byte{0x10};
    EXPECT_EQ(DecodeSegmentHeader(page.span()).status().code(),
              absl::StatusCode::kDataLoss)
        << i;
    page.data()[i] ^= std::byte{0x10};
  }
  EXPECT_FALSE(DecodeSegmentHeader(page.span().first(4095)).ok());
  EXPECT_FALSE(DecodeSegmentHeader({}).ok());
}

TEST(SegmentFormatTest, FileNamesAreThoseOfSegmentsOnly) {
  EXPECT_EQ(SegmentFileName(SegmentId{42}), "00000042.seg");
  EXPECT_EQ(SegmentFileName(SegmentId{1234567890}), "1234567890.seg");
  EXPECT_EQ(ParseSegmentFileName("00000042.seg"), SegmentId{42});
  EXPECT_EQ(ParseSegmentFileName("1234567890.seg"), SegmentId{1234567890});
  for (const char* name :
       {"", ".seg", "42.seg", "00000000.seg", "0000000042.seg", "00000042",
        "00000042.seg.tmp", "0000004x.seg", "-0000042.seg", "+0000042.seg",
        "99999999999999999999999.seg"}) {
    EXPECT_FALSE(ParseSegmentFileName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace msitd::storage
