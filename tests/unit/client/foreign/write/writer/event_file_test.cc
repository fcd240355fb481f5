// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/event_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace msitd::write {
namespace {

// Bytes among which there are zeros.
template <size_t size>
std::string Bytes(const char (&text)[size]) {
  return std::string(text, size - 1);
}

// The CRC-32C of "123456789" is 0xe3069283. The mask is a rotation by 15 bits
// and a sum.
TEST(EventFileTest, RecordsHaveMaskedChecksums) {
  const std::string record = TfRecord("123456789");
  ASSERT_EQ(record.size(), 8 + 4 + 9 + 4u);
  EXPECT_EQ(record.substr(0, 8), Bytes("\x09\0\0\0\0\0\0\0"));
  EXPECT_EQ(record.substr(12, 9), "123456789");
  uint32_t sum = 0xe3069283;
  sum = ((sum >> 15) | (sum << 17)) + 0xa282ead8;
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    bytes += static_cast<char>(sum >> (8 * i));
  }
  EXPECT_EQ(record.substr(21), bytes);
}

TEST(EventFileTest, TheFirstRecordStatesTheVersion) {
  const std::string record = EventFileStart(1.0);
  EXPECT_EQ(record.substr(12, record.size() - 16),
            Bytes("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                  "brain.Event:2"));
}

TEST(EventFileTest, ValuesHaveTheirTagAndStep) {
  const std::array scalars = {Scalar{"a", 1.0F}, Scalar{"b", -2.0F}};
  const std::string record = EventRecord(1.0, 300, scalars);
  EXPECT_EQ(record.substr(12, record.size() - 16),
            Bytes("\x09\0\0\0\0\0\0\xf0\x3f"
                  "\x10\xac\x02"
                  "\x2a\x14"
                  "\x0a\x08\x0a\x01"
                  "a\x15\0\0\x80\x3f"
                  "\x0a\x08\x0a\x01"
                  "b\x15\0\0\0\xc0"));
  EXPECT_EQ(EventFileName(12), "events.out.tfevents.12.msitd");
}

}  // namespace
}  // namespace msitd::write
