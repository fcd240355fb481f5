// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/crc32.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::write {
namespace {

TEST(Crc32Test, IsThatOfZip) {
  EXPECT_EQ(Crc32(0, ""), 0u);
  EXPECT_EQ(Crc32(0, "123456789"), 0xcbf43926u);
  EXPECT_EQ(Crc32(0, std::string(32, '\0')), 0x190a55adu);
  EXPECT_EQ(Crc32(0, std::string(32, '\xff')), 0xff6cab0bu);
}

TEST(Crc32Test, GoesOnWhereItStopped) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * 7);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view all = bytes;
    EXPECT_EQ(Crc32(Crc32(0, all.substr(0, cut)), all.substr(cut)),
              Crc32(0, all));
  }
}

}  // namespace
}  // namespace msitd::write
